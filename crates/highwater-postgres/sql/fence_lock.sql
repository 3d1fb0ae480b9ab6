-- What a handler has ended must not be continued: the closing asks whether it is still in this very transaction.
SELECT last_global_sequence, term, nonce, {life}, set_config('highwater.fence', pg_current_xact_id()::text, true)
FROM {schema}.event_bus_checkpoints WHERE subscriber_id::text = $1 FOR NO KEY UPDATE

SELECT last_global_sequence, term, nonce, pg_postmaster_start_time()
FROM {schema}.event_bus_checkpoints WHERE subscriber_id = $1 FOR NO KEY UPDATE

UPDATE {schema}.event_bus_checkpoints SET updated_at = now()
WHERE subscriber_id::text = $1 AND term = $2 AND nonce = $3
    AND current_setting('highwater.fence', true) = pg_current_xact_id_if_assigned()::text

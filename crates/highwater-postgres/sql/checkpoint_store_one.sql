UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $5, last_event_id = coalesce($6, last_event_id), updated_at = now()
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND pg_postmaster_start_time() = $4

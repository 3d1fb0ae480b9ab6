-- Never back: a write that arrives late, behind a newer one, changes nothing.
UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = greatest($5, last_global_sequence), updated_at = now(),
    last_event_id = CASE WHEN $5 < last_global_sequence THEN last_event_id ELSE coalesce($6, last_event_id) END
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND pg_postmaster_start_time() = $4

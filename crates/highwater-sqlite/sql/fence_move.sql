UPDATE event_bus_checkpoints
SET last_global_sequence = $6, last_event_id = coalesce($7, last_event_id), updated_at = $8, opened = NULL
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND opened = $4 AND last_global_sequence = $5

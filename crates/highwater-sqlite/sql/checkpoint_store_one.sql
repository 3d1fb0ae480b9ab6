-- Never back: a write that arrives late, behind a newer one, changes nothing.
UPDATE event_bus_checkpoints
SET last_global_sequence = $4, last_event_id = coalesce($5, last_event_id), updated_at = $6
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND last_global_sequence <= $4

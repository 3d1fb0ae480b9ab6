UPDATE event_bus_checkpoints
SET last_global_sequence = $5, last_event_id = NULL, updated_at = $6, term = $7, nonce = $8, opened = NULL,
    setup_version = coalesce($9, setup_version)
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND opened = $4

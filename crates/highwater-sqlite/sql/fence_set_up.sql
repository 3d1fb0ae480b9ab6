UPDATE event_bus_checkpoints SET setup_version = $6, updated_at = $5, opened = NULL
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND opened = $4

DELETE FROM event_bus_checkpoints WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND opened = $4

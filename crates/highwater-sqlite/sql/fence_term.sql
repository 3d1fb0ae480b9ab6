SELECT term, nonce FROM event_bus_checkpoints WHERE subscriber_id = $1

SELECT opened IS $2 FROM event_bus_checkpoints WHERE subscriber_id = $1

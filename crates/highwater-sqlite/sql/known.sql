SELECT EXISTS (SELECT 1 FROM event_bus_checkpoints WHERE subscriber_id = $1)

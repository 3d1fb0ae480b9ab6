INSERT INTO event_bus_pauses (subscriber_id, paused_at) VALUES ($1, $2)

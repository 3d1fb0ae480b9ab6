DELETE FROM event_bus_pauses WHERE subscriber_id = $1

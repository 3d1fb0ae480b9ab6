DELETE FROM event_bus_requests WHERE subscriber_id = $1

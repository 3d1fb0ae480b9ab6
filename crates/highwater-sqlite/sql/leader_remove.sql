DELETE FROM event_bus_leaders WHERE subscriber_id = $1

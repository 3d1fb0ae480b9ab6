DELETE FROM event_bus_reports WHERE subscriber_id = $1

DELETE FROM event_bus_requests WHERE subscriber_id = $1 AND finished_at < $2

SELECT EXISTS (
    SELECT 1 FROM event_bus_dlq WHERE id = $1 AND subscriber_id = $2 AND state IN ('dead', 'parked'))

UPDATE event_bus_requests SET finished_at = $3, done = $4, failed = $5, error = $6
WHERE id = $1 AND subscriber_id = $2

UPDATE {schema}.event_bus_requests SET finished_at = coalesce($3, now()), done = $4, failed = $5, error = $6
WHERE id = $1 AND subscriber_id::text = $2

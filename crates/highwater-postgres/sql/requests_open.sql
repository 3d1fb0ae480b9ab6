SELECT id, subscriber_id, ask, letter, stream_id, reason, requested_by, requested_at, finished_at, done, failed, error
FROM {schema}.event_bus_requests WHERE finished_at IS NULL AND subscriber_id = ANY ($1)
ORDER BY requested_at, id LIMIT 1000

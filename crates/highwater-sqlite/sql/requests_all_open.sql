SELECT id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at, finished_at, done,
    failed, error
FROM event_bus_requests
WHERE finished_at IS NULL AND ($1 IS NULL OR (requested_at, id) > ($1, $2))
ORDER BY requested_at, id LIMIT $3

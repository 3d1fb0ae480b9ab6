-- So many of each subscriber, so that nobody's many keep another's few waiting.
SELECT id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at, finished_at, done,
    failed, error
FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.subscriber_id ORDER BY r.requested_at, r.id) AS place
    FROM event_bus_requests r
    WHERE r.finished_at IS NULL AND r.subscriber_id IN (SELECT i.value FROM json_each($1) i))
WHERE place <= 100
ORDER BY requested_at, id

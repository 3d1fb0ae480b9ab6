-- So many of each subscriber, so that nobody's many keep another's few waiting; and only those that can be read, so that those
-- that cannot keep none waiting. Nothing has come of them yet, so that is not asked for.
SELECT id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at, finished_at
FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.subscriber_id ORDER BY r.requested_at, r.id) AS place
    FROM event_bus_requests r
    WHERE r.finished_at IS NULL AND r.subscriber_id IN (SELECT i.value FROM json_each($1) i)
        AND CASE r.kind
            WHEN 'replay' THEN r.dead_letter_id IS NOT NULL
            WHEN 'replay_stream' THEN r.stream_id IS NOT NULL
            WHEN 'replay_all' THEN 1
            WHEN 'discard' THEN r.dead_letter_id IS NOT NULL AND r.reason IS NOT NULL
            WHEN 'rebuild' THEN 1
            WHEN 'reread' THEN 1
            ELSE 0
        END
        AND length(r.id) = 16 AND coalesce(length(r.dead_letter_id), 16) = 16 AND coalesce(length(r.stream_id), 16) = 16
        AND r.requested_at BETWEEN -62135596800000000 AND 253402300799999999)
WHERE place <= 100
ORDER BY requested_at, id

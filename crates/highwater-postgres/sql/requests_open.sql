-- So many of each subscriber, so that nobody's many keep another's few waiting.
SELECT r.id, r.subscriber_id, r.kind, r.dead_letter_id, r.stream_id, r.reason, r.requested_by, r.requested_at,
    r.finished_at, r.done, r.failed, r.error
FROM unnest($1::text[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.event_bus_requests o
    WHERE o.finished_at IS NULL AND o.subscriber_id = s.id
    ORDER BY o.requested_at, o.id LIMIT 100
) r
ORDER BY r.requested_at, r.id

-- So many of each subscriber, so that nobody's many keep another's few waiting; and only those that can be read, so that those
-- that cannot keep none waiting. Nothing has come of them yet, so that is not asked for.
SELECT r.id, r.subscriber_id, r.kind, r.dead_letter_id, r.stream_id, r.reason, r.requested_by, r.requested_at, r.finished_at
FROM unnest($1::text[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.event_bus_requests o
    WHERE o.finished_at IS NULL AND o.subscriber_id = s.id
        AND CASE o.kind
            WHEN 'replay' THEN o.dead_letter_id IS NOT NULL
            WHEN 'replay_stream' THEN o.stream_id IS NOT NULL
            WHEN 'replay_all' THEN true
            WHEN 'discard' THEN o.dead_letter_id IS NOT NULL AND o.reason IS NOT NULL
            WHEN 'rebuild' THEN true
            WHEN 'reread' THEN true
            ELSE false
        END
        AND o.requested_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange
    ORDER BY o.requested_at, o.id LIMIT 100
) r
ORDER BY r.requested_at, r.id

-- Rows that nothing of ours has written: of what kind, which, and what is wrong with it. A few of each. Of events the newest
-- $1 are looked at, and what they rest on.
WITH newest AS MATERIALIZED (
    SELECT e.global_sequence, e.id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.created_at,
        e.data IS NULL AS no_data, e.metadata::text AS metadata, e.ctid AS place
    FROM {schema}.events e ORDER BY e.global_sequence DESC LIMIT $1
),
said (kind, which, wrong) AS (
    (SELECT 'event', e.global_sequence::text, 'its number is not positive, so no reader is given it'
    FROM {schema}.events e WHERE e.global_sequence < 1 LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, 'it has no id, no stream, no type, no data or no time'
    FROM newest n
    WHERE n.id IS NULL OR n.stream_id IS NULL OR n.no_data OR n.metadata IS NULL OR n.created_at IS NULL
        OR coalesce(octet_length(n.event_type), 0) NOT BETWEEN 1 AND 255
    LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, 'its version is no positive number'
    FROM newest n WHERE coalesce(n.stream_version, 0) < 1 LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, 'its schema version is none'
    FROM newest n WHERE coalesce(n.schema_version, 0) < 1 LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, 'its metadata is no JSON object'
    FROM newest n WHERE ltrim(n.metadata, E' \t\r\n') NOT LIKE '{%' LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, 'its time is none that can be shown'
    FROM newest n WHERE NOT isfinite(n.created_at) OR n.created_at > '200000-01-01' LIMIT 5)
    UNION ALL
    (SELECT 'event', max(e.global_sequence)::text, format('its id is that of %s others as well', count(*) - 1)
    FROM {schema}.events e JOIN (SELECT DISTINCT n.id FROM newest n) n ON n.id = e.id
    GROUP BY e.id HAVING count(*) > 1 LIMIT 5)
    UNION ALL
    (SELECT 'event', n.global_sequence::text, format('its number is that of %s others as well', count(*) - 1)
    FROM newest n GROUP BY n.global_sequence HAVING count(*) > 1 LIMIT 5)
    UNION ALL
    (SELECT 'stream', n.stream_id::text, format('version %s is missing', n.stream_version - 1)
    FROM newest n
    LEFT JOIN {schema}.events b ON b.stream_id = n.stream_id AND b.stream_version = n.stream_version - 1
    WHERE n.stream_version > 1 AND b.stream_id IS NULL LIMIT 5)
    UNION ALL
    (SELECT 'stream', n.stream_id::text, format('version %s stands before the one before it in the log', n.stream_version)
    FROM newest n JOIN {schema}.events b ON b.stream_id = n.stream_id AND b.stream_version = n.stream_version - 1
    WHERE b.global_sequence > n.global_sequence LIMIT 5)
    UNION ALL
    (SELECT 'stream', n.stream_id::text, format('version %s is there twice', n.stream_version)
    FROM newest n JOIN {schema}.events o
        ON o.stream_id = n.stream_id AND o.stream_version = n.stream_version AND o.ctid < n.place
    LIMIT 5)
    UNION ALL
    (SELECT 'checkpoint', quote_literal(c.subscriber_id), 'a subscriber''s name has 1 to 255 bytes'
    FROM {schema}.event_bus_checkpoints c WHERE coalesce(octet_length(c.subscriber_id), 0) NOT BETWEEN 1 AND 255 LIMIT 5)
    UNION ALL
    (SELECT 'checkpoint', quote_nullable(c.subscriber_id), format('it stands at %s, which is no position',
        quote_nullable(c.last_global_sequence))
    FROM {schema}.event_bus_checkpoints c WHERE coalesce(c.last_global_sequence, -1) < 0 LIMIT 5)
    UNION ALL
    (SELECT 'checkpoint', quote_nullable(c.subscriber_id), format('its term %s was never given', quote_nullable(c.term))
    FROM {schema}.event_bus_checkpoints c
    WHERE coalesce(c.term, -1) < 0 OR c.nonce IS NULL
        -- NULL where nothing was drawn yet, or where the role may not see it.
        OR c.term > (SELECT s.last_value FROM pg_sequences s
            WHERE s.schemaname = $2 AND s.sequencename = 'event_bus_terms')
    LIMIT 5)
    UNION ALL
    (SELECT 'dead letter', d.id::text, format('its state %L is not known', d.state)
    FROM {schema}.event_bus_dlq d WHERE d.state NOT IN ('dead', 'parked', 'replayed', 'discarded', 'archived') LIMIT 5)
    UNION ALL
    (SELECT 'dead letter', d.id::text, format('its event %s is not in the log', d.event_id)
    FROM {schema}.event_bus_dlq d LEFT JOIN {schema}.events e ON e.id = d.event_id
    WHERE d.state IN ('dead', 'parked') AND e.id IS NULL LIMIT 5)
    UNION ALL
    (SELECT 'request', r.id::text, format('its kind %L is not known, or lacks a detail', r.kind)
    FROM {schema}.event_bus_requests r
    WHERE r.finished_at IS NULL AND NOT CASE r.kind
        WHEN 'replay' THEN r.dead_letter_id IS NOT NULL
        WHEN 'replay_stream' THEN r.stream_id IS NOT NULL
        WHEN 'replay_all' THEN true
        WHEN 'discard' THEN r.dead_letter_id IS NOT NULL AND r.reason IS NOT NULL
        WHEN 'rebuild' THEN true
        WHEN 'reread' THEN true
        ELSE false
    END LIMIT 5)
    UNION ALL
    (SELECT 'request', r.id::text, 'its time is none that can be shown'
    FROM {schema}.event_bus_requests r
    WHERE NOT r.requested_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange LIMIT 5)
    UNION ALL
    (SELECT 'request', r.id::text, 'what came of it is counted below 0'
    FROM {schema}.event_bus_requests r WHERE r.done < 0 OR r.failed < 0 LIMIT 5)
    UNION ALL
    (SELECT 'report', quote_literal(p.subscriber_id), format('its state %L is not known, or a number of it is none', p.state)
    FROM {schema}.event_bus_reports p
    WHERE p.state NOT IN ('catching_up', 'live', 'retrying', 'disconnected', 'paused', 'halted', 'stopped')
        OR p.term < 0 OR p.global_sequence < 0 LIMIT 5)
)
SELECT s.kind, s.which, s.wrong FROM said s ORDER BY s.kind, s.which COLLATE "C", s.wrong COLLATE "C"

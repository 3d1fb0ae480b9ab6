-- Constraints of ours that are missing or were never validated, known by what they say and not by their name.
SELECT CASE
    WHEN c.conname IS NULL THEN format('ALTER TABLE %s.%s ADD %s', '{schema_text}', w.relation, w.definition)
    ELSE format('ALTER TABLE %s.%s VALIDATE CONSTRAINT %I', '{schema_text}', w.relation, c.conname)
END
FROM (VALUES
    ('events', 'CHECK ((stream_version > 0))'),
    ('events', 'CHECK (((octet_length(event_type) >= 1) AND (octet_length(event_type) <= 255)))'),
    ('events', 'CHECK ((schema_version > 0))'),
    ('events', 'CHECK ((json_typeof(metadata) = ''object''::text))'),
    ('events', 'CHECK ((created_at <@ ''["0001-01-01 00:00:00+00","10000-01-01 00:00:00+00")''::tstzrange))'),
    ('event_bus_dlq', 'CHECK ((state = ANY (ARRAY[''dead''::text, ''parked''::text, ''replayed''::text, ''discarded''::text, ''archived''::text])))'),
    ('event_bus_requests', 'CHECK ( CASE kind WHEN ''replay''::text THEN (dead_letter_id IS NOT NULL) WHEN ''replay_stream''::text THEN (stream_id IS NOT NULL) WHEN ''replay_all''::text THEN true WHEN ''discard''::text THEN ((dead_letter_id IS NOT NULL) AND (reason IS NOT NULL)) WHEN ''rebuild''::text THEN true WHEN ''reread''::text THEN true ELSE false END)'),
    ('event_bus_requests', 'CHECK (((done >= 0) AND (failed >= 0) AND (octet_length(requested_by) <= 8192) AND (octet_length(COALESCE(reason, ''''::text)) <= 8192) AND (octet_length(COALESCE(error, ''''::text)) <= 16384) AND (requested_at <@ ''["0001-01-01 00:00:00+00","10000-01-01 00:00:00+00")''::tstzrange)))'),
    ('event_bus_leaders', 'CHECK (((octet_length(host) <= 8192) AND (octet_length(COALESCE(label, ''''::text)) <= 8192) AND (since <@ ''["0001-01-01 00:00:00+00","10000-01-01 00:00:00+00")''::tstzrange)))'),
    ('event_bus_instances', 'CHECK (((octet_length(host) <= 8192) AND (octet_length(COALESCE(label, ''''::text)) <= 8192) AND (octet_length((wants)::text) <= 1048576) AND (octet_length((prefers)::text) <= 1048576) AND (since <@ ''["0001-01-01 00:00:00+00","10000-01-01 00:00:00+00")''::tstzrange)))'),
    ('event_bus_reports', 'CHECK (((octet_length(state) <= 16384) AND (octet_length(COALESCE(reason, ''''::text)) <= 16384) AND (octet_length(COALESCE(last_error, ''''::text)) <= 16384) AND (octet_length(COALESCE(push_degraded, ''''::text)) <= 16384) AND (octet_length(COALESCE(reads, ''''::text)) <= 1048576)))')
) AS w (relation, definition)
LEFT JOIN LATERAL (
    SELECT k.conname, k.convalidated FROM pg_constraint k
    WHERE k.conrelid = to_regclass('{schema_text}.' || w.relation) AND k.contype = 'c'
        AND regexp_replace(regexp_replace(pg_get_constraintdef(k.oid), '\s+', ' ', 'g'), ' NOT VALID$', '') = w.definition
    ORDER BY k.convalidated DESC LIMIT 1
) c ON true
WHERE c.convalidated IS NOT TRUE
UNION ALL
SELECT 'ALTER TABLE {schema_text}.event_bus_dlq_attempts ADD FOREIGN KEY (dead_letter_id) REFERENCES {schema_text}.event_bus_dlq ON DELETE CASCADE'
WHERE NOT EXISTS (
    SELECT FROM pg_constraint c
    WHERE c.conrelid = to_regclass('{schema_text}.event_bus_dlq_attempts') AND c.contype = 'f' AND c.convalidated
        AND c.confrelid = to_regclass('{schema_text}.event_bus_dlq') AND c.confdeltype = 'c')
ORDER BY 1

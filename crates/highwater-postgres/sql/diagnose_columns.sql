-- Columns of ours that are not as they were made, in words. A table that was adopted may have text of other kinds.
SELECT CASE WHEN a.attname IS NULL THEN format('%s.%s is missing', w.relation, w.name)
    WHEN NOT format_type(a.atttypid, NULL) = ANY (w.types)
        THEN format('%s.%s is of type %s and not %s', w.relation, w.name, format_type(a.atttypid, NULL), w.types[1])
    ELSE format('%s.%s may be NULL', w.relation, w.name) END
FROM (
    SELECT 'events' AS relation, c.name, c.types, c.filled FROM (VALUES {event_types}) AS c (name, types, filled)
    UNION ALL
    SELECT 'event_bus_checkpoints', c.name, c.types, c.filled FROM (VALUES
        ('subscriber_id', ARRAY['character varying', 'text'], true), ('last_global_sequence', ARRAY['bigint'], true),
        ('last_event_id', ARRAY['uuid'], false), ('updated_at', ARRAY['timestamp with time zone'], true),
        ('term', ARRAY['bigint'], true), ('nonce', ARRAY['uuid'], true),
        ('setup_version', ARRAY['integer'], false)) AS c (name, types, filled)
    UNION ALL
    SELECT 'event_bus_dlq', c.name, c.types, true FROM (VALUES
        ('id', ARRAY['uuid']), ('subscriber_id', ARRAY['character varying', 'text']), ('event_id', ARRAY['uuid']),
        ('global_sequence', ARRAY['bigint']), ('stream_id', ARRAY['uuid']), ('event_type', ARRAY['text']),
        ('state', ARRAY['text']), ('parks', ARRAY['boolean'])) AS c (name, types)
    UNION ALL
    SELECT 'event_bus_requests', c.name, c.types, c.filled FROM (VALUES
        ('id', ARRAY['uuid'], true), ('subscriber_id', ARRAY['character varying'], true), ('kind', ARRAY['text'], true),
        ('dead_letter_id', ARRAY['uuid'], false), ('stream_id', ARRAY['uuid'], false), ('reason', ARRAY['text'], false),
        ('finished_at', ARRAY['timestamp with time zone'], false)) AS c (name, types, filled)
    UNION ALL
    SELECT 'event_bus_reports', c.name, c.types, true FROM (VALUES
        ('subscriber_id', ARRAY['character varying']), ('term', ARRAY['bigint']), ('state', ARRAY['text']),
        ('global_sequence', ARRAY['bigint'])) AS c (name, types)
) w
LEFT JOIN pg_attribute a ON a.attrelid = to_regclass('{schema_text}.' || w.relation) AND a.attname = w.name
    AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.attname IS NULL OR NOT format_type(a.atttypid, NULL) = ANY (w.types) OR w.filled AND NOT a.attnotnull
ORDER BY 1

-- What keeps a table from being adopted as the log, in words.
SELECT CASE WHEN a.attname IS NULL THEN format('column %I does not exist', w.name)
    ELSE format('column %I is of type %s', w.name, format_type(a.atttypid, NULL)) END
FROM (VALUES
    (1, 'id', ARRAY['uuid']),
    (2, 'stream_id', ARRAY['uuid']),
    (3, 'stream_version', ARRAY['smallint', 'integer', 'bigint', 'numeric']),
    (4, 'event_type', ARRAY['text', 'character varying', 'character', 'name']),
    (5, 'data', ARRAY['json', 'jsonb', 'text', 'character varying']),
    (6, 'created_at', ARRAY['timestamp with time zone', 'timestamp without time zone', 'date'])) AS w (n, name, types)
LEFT JOIN pg_attribute a
    ON a.attrelid = '{schema_text}.events'::regclass AND a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.attname IS NULL OR NOT format_type(a.atttypid, NULL) = ANY (w.types)
ORDER BY w.n

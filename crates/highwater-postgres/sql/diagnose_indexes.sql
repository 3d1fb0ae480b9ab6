-- Indexes of ours that are missing, known by what they are and not by their name; those that cannot be used; and those of
-- another owner that nobody uses. $1 is the schema.
WITH wanted (relation, columns, is_unique, predicate) AS (VALUES
    ('events', ARRAY['global_sequence'], true, NULL),
    ('events', ARRAY['id'], true, NULL),
    ('events', ARRAY['stream_id', 'stream_version'], true, NULL),
    ('events', ARRAY['stream_name', 'stream_id'], false, '((stream_version = 1) AND (stream_name IS NOT NULL))'),
    ('event_bus_checkpoints', ARRAY['subscriber_id'], true, NULL),
    ('event_bus_pauses', ARRAY['subscriber_id'], true, NULL),
    ('event_bus_dlq', ARRAY['id'], true, NULL),
    ('event_bus_dlq', ARRAY['subscriber_id', 'event_id'], true, NULL),
    ('event_bus_dlq', ARRAY['subscriber_id'], false, NULL),
    ('event_bus_dlq', ARRAY['created_at'], false, NULL),
    ('event_bus_dlq', ARRAY['subscriber_id', 'stream_id'], false, '(state = ANY (ARRAY[''dead''::text, ''parked''::text]))'),
    ('event_bus_dlq_attempts', ARRAY['id'], true, NULL),
    ('event_bus_dlq_attempts', ARRAY['dead_letter_id'], false, NULL),
    ('event_bus_requests', ARRAY['id'], true, NULL),
    ('event_bus_requests', ARRAY['subscriber_id'], false, '(finished_at IS NULL)'),
    ('event_bus_leaders', ARRAY['subscriber_id'], true, NULL),
    ('event_bus_instances', ARRAY['session'], true, NULL)),
there AS (
    SELECT c.relname::text AS relation, x.relname::text AS name, i.indisunique AND i.indimmediate AS is_unique,
        i.indisvalid AND i.indisready AS usable, pg_get_expr(i.indpred, i.indrelid) AS predicate,
        ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
              LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
              WHERE k.n <= i.indnkeyatts ORDER BY k.n) AS columns,
        coalesce(s.idx_scan, 0) AS scans
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_user_indexes s ON s.indexrelid = i.indexrelid
    WHERE n.nspname = $1 AND c.relname IN (SELECT w.relation FROM wanted w)),
matching AS (
    SELECT w.relation, w.columns, w.is_unique, w.predicate, t.name, t.usable FROM wanted w JOIN there t
        ON t.relation = w.relation AND (t.is_unique OR NOT w.is_unique)
            -- A dead letter's may stand the other way round in a table that was adopted.
            AND (t.columns = w.columns
                OR w.is_unique AND w.relation = 'event_bus_dlq' AND t.columns @> w.columns AND t.columns <@ w.columns)
            AND (t.predicate IS NULL OR t.predicate = w.predicate))
SELECT 'missing' AS kind, w.is_unique,
    format('CREATE %sINDEX CONCURRENTLY ON %s.%s (%s)%s', CASE WHEN w.is_unique THEN 'UNIQUE ' ELSE '' END,
        '{schema_text}', w.relation, array_to_string(w.columns, ', '), ' WHERE ' || w.predicate) AS said
FROM wanted w
WHERE NOT EXISTS (SELECT FROM matching m WHERE m.usable AND (m.relation, m.columns, m.is_unique, m.predicate)
    IS NOT DISTINCT FROM (w.relation, w.columns, w.is_unique, w.predicate))
UNION ALL
SELECT 'unusable', t.is_unique, format('{schema_text}.%I', t.name) FROM there t WHERE NOT t.usable
UNION ALL
SELECT 'unused', false, format('{schema_text}.%I', t.name) FROM there t
WHERE t.usable AND NOT t.is_unique AND t.scans = 0 AND NOT EXISTS (SELECT FROM matching m WHERE m.name = t.name)
ORDER BY 1, 2 DESC, 3

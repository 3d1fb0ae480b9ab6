-- What the role may, by what it is for. NULL: it is not there.
SELECT w.purpose, format('%s ON %s', w.privilege, w.object) AS needed,
    CASE w.kind
        WHEN 'table' THEN has_table_privilege(to_regclass('{schema_text}.' || w.object), w.privilege)
        WHEN 'sequence' THEN has_sequence_privilege(to_regclass('{schema_text}.' || w.object), w.privilege)
        ELSE has_function_privilege(to_regproc('{schema_text}.' || w.object), w.privilege)
    END AS allowed
FROM (
    SELECT 1 AS n, 'read' AS purpose, 'table' AS kind, t.name AS object, 'SELECT' AS privilege
    FROM unnest(ARRAY['events', 'event_bus_checkpoints', 'event_bus_pauses', 'event_bus_dlq', 'event_bus_dlq_attempts',
        'event_bus_requests', 'event_bus_leaders', 'event_bus_instances']) AS t (name)
    UNION ALL
    SELECT 1, 'read', 'table', t.name, 'SELECT' FROM unnest(ARRAY['server_life', 'settled']) AS t (name)
    UNION ALL
    SELECT 1, 'read', 'function', f.name, 'EXECUTE' FROM unnest(ARRAY['life', 'insist_on_life', 'settle']) AS f (name)
    UNION ALL
    SELECT 1, 'read', 'sequence', 'events_global_sequence_seq', 'SELECT'
    UNION ALL
    SELECT 2, 'append', 'function', f.name, 'EXECUTE'
    FROM unnest(ARRAY['append', 'append_one', 'append_group', 'append_new']) AS f (name)
    UNION ALL
    SELECT 3, 'process for subscribers', 'table', t.name, p.name
    FROM unnest(ARRAY['event_bus_checkpoints', 'event_bus_pauses', 'event_bus_dlq', 'event_bus_dlq_attempts',
            'event_bus_requests', 'event_bus_leaders', 'event_bus_instances']) AS t (name),
        unnest(ARRAY['INSERT', 'UPDATE', 'DELETE']) AS p (name)
    UNION ALL
    SELECT 3, 'process for subscribers', 'sequence', 'event_bus_terms', 'USAGE'
    UNION ALL
    SELECT 3, 'process for subscribers', 'function', 'session_is_gone', 'EXECUTE'
) w
ORDER BY w.n, w.kind DESC, w.object, w.privilege

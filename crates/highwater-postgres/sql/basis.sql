-- What the order of the log rests on.
SELECT a.attidentity = 'a' AS identity, s.seqcache = 1 AS cache, s.seqincrement = 1 AS increment, NOT s.seqcycle AS cycle,
    s.seqrelid = pg_get_serial_sequence('{schema_text}.events', 'global_sequence')::regclass AS owned,
    (SELECT coalesce(max(e.global_sequence), 0) FROM {schema}.events e) AS highest,
    (SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END
     FROM {schema}.events_global_sequence_seq q) AS last_value,
    coalesce((SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = to_regclass('{schema_text}.server_life')), true) AS life,
    NOT EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = t.relnamespace AND c.relrowsecurity
            AND (c.relname IN ('events', 'server_life') OR c.relname LIKE 'event\_bus\_%')) AS unfiltered,
    -- A recovery empties what is unlogged.
    NOT EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = t.relnamespace AND c.relkind IN ('r', 'p', 'S') AND c.relpersistence <> 'p'
            AND (c.relname IN ('events', 'events_global_sequence_seq', 'settled', 'filling', 'migrations')
                OR c.relname LIKE 'event\_bus\_%')) AS logged,
    current_setting('server_encoding') = 'UTF8' AS utf8,
    -- Their texts name the schema that they were made in.
    NOT EXISTS (
        SELECT FROM pg_proc p
        WHERE p.pronamespace = t.relnamespace AND p.proname IN ('append_one', 'append_new', 'append_group', 'settle')
            AND strpos(p.prosrc, '{schema_text}.events') = 0) AS at_home
FROM pg_attribute a
JOIN pg_class t ON t.oid = a.attrelid
JOIN pg_sequence s ON s.seqrelid = to_regclass('{schema_text}.events_global_sequence_seq')
WHERE a.attrelid = '{schema_text}.events'::regclass AND a.attname = 'global_sequence'

-- The sessions at the root of waiting: those that have locked a whole table of ours against writing, which every role sees, and those
-- that others wait for which are at work on ours, without waiting themselves. `wholly`: nothing can be read either, because a table
-- is locked against that, or something that waits for its lock will lock it so. Looks at no table of ours, so that it does not wait.
-- A prepared transaction has no process.
WITH ours AS MATERIALIZED (
    SELECT k.pid, k.granted, k.mode, c.relname::text AS name FROM pg_locks k JOIN pg_class c ON c.oid = k.relation
    WHERE c.relnamespace = to_regnamespace('{schema_text}') AND k.locktype IN ('relation', 'tuple')
        AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),
waiting AS MATERIALIZED (
    SELECT DISTINCT k.pid FROM pg_locks k JOIN ours o ON o.pid = k.pid WHERE NOT k.granted),
blocking AS (
    SELECT o.pid, o.name, o.mode = 'AccessExclusiveLock' AS wholly FROM ours o
    WHERE o.granted
        AND o.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        AND o.pid IS DISTINCT FROM pg_backend_pid()
        AND EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass('{schema_text}.' || quote_ident(o.name))
            AND c.relkind IN ('r', 'p'))
    UNION ALL
    SELECT nullif(b.pid, 0), NULL, EXISTS (SELECT FROM ours o WHERE o.mode = 'AccessExclusiveLock') FROM waiting w CROSS JOIN unnest(pg_blocking_pids(w.pid)) AS b (pid)
    WHERE b.pid NOT IN (SELECT w.pid FROM waiting w))
SELECT b.pid, r.rolname::text, a.application_name, min(b.name), bool_or(b.wholly),
    bool_or(a.wait_event IS NOT DISTINCT FROM 'SyncRep')
FROM blocking b
LEFT JOIN pg_stat_activity a ON a.pid = b.pid
LEFT JOIN pg_roles r ON r.oid = a.usesysid
WHERE b.pid IS NULL OR b.pid NOT IN (SELECT w.pid FROM waiting w)
GROUP BY b.pid, r.rolname, a.application_name
ORDER BY min(a.backend_start), b.pid

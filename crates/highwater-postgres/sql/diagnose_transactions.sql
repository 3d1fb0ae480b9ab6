-- Transactions that have been open for more than $1 seconds, and keep vacuum from removing what was deleted since. Those that wait
-- for another one's lock are not at fault. Of other
-- roles only with pg_read_all_stats. Not more than are worth reading.
SELECT t.pid, t.name, t.state, t.age, t.waits_for_replica FROM (
    SELECT a.pid, a.application_name AS name, a.state,
        extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age,
        a.wait_event IS NOT DISTINCT FROM 'SyncRep' AS waits_for_replica
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
        AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
        AND NOT EXISTS (SELECT FROM pg_locks k WHERE k.pid = a.pid AND NOT k.granted)
    UNION ALL
    SELECT NULL, p.gid, 'prepared', extract(epoch FROM clock_timestamp() - p.prepared)::float8, false
    FROM pg_prepared_xacts p WHERE p.database = current_database()
) t
WHERE t.age > $1 ORDER BY t.age DESC LIMIT 10

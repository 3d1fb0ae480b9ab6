-- Which sessions keep checkpoints locked: those whose transactions have changed the row or locked it alone; and without a subscriber
-- all that may have, since a row tells neither who locked it within a savepoint, nor which of several sessions have.
SELECT l.pid, r.rolname::text, a.application_name, c.subscriber_id::text,
    a.wait_event IS NOT DISTINCT FROM 'SyncRep'
FROM {schema}.event_bus_checkpoints c
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = c.xmax AND l.granted
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_roles r ON r.oid = a.usesysid
WHERE c.subscriber_id::text = ANY ($1) AND l.pid IS DISTINCT FROM pg_backend_pid()
UNION ALL
SELECT l.pid, r.rolname::text, a.application_name, NULL, a.wait_event IS NOT DISTINCT FROM 'SyncRep'
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_roles r ON r.oid = a.usesysid
WHERE l.locktype = 'relation' AND l.mode IN ('RowShareLock', 'RowExclusiveLock') AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation = '{schema_text}.event_bus_checkpoints'::regclass AND l.pid IS DISTINCT FROM pg_backend_pid()
GROUP BY l.pid, r.rolname, a.application_name, a.wait_event
ORDER BY 4, 1

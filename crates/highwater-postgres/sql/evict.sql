-- Ends Highwater's own sessions that keep session $1 waiting: transactions of a former leader, which may be frozen. Those of
-- other roles may not be ended, and are only named. The rule is pg_terminate_backend's, which fails for all of them when it
-- is asked for one too many: being a member is not enough where that is not inherited. None that waits for a synchronous replica:
-- its end would make its commit visible although no replica has it.
SELECT a.pid, a.usename::text,
    CASE WHEN (pg_has_role(a.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
            AND (NOT r.rolsuper OR current_setting('is_superuser')::boolean)
        THEN pg_terminate_backend(a.pid) END
FROM pg_stat_activity a
JOIN pg_roles r ON r.oid = a.usesysid
WHERE a.pid = ANY (pg_blocking_pids($1)) AND a.application_name LIKE '% deliver'
    AND a.wait_event IS DISTINCT FROM 'SyncRep'

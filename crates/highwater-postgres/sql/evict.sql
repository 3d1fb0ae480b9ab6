-- Ends Highwater's own sessions that keep session $1 waiting: transactions of a former leader, which may be frozen. Those of
-- other roles may not be ended, and are only named.
SELECT a.pid, a.usename::text,
    CASE WHEN pg_has_role(current_user, a.usesysid, 'MEMBER') THEN pg_terminate_backend(a.pid) END
FROM pg_stat_activity a
WHERE a.pid = ANY (pg_blocking_pids($1)) AND a.application_name LIKE '% deliver'

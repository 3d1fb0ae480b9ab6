-- Ends Highwater's own sessions that keep session $1 waiting: transactions of a former leader, which may be frozen.
SELECT a.pid, pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE a.pid = ANY (pg_blocking_pids($1)) AND a.application_name LIKE '% deliver'
    AND pg_has_role(current_user, a.usesysid, 'MEMBER')

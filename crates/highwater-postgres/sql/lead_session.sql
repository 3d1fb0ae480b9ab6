-- The session that locks hang on. $1: after how many milliseconds the server ends it when nothing is heard, so that a
-- process that hangs or a host that vanishes does not lead any longer. Statements end well before, and none of them waits
-- for a lock. The session's process and role are what others know it by: no other role can have both.
SELECT a.pid, a.usesysid,
    set_config('idle_session_timeout', $1::text, false),
    set_config('statement_timeout', ($1 / 2)::text, false),
    set_config('lock_timeout', ($1 / 4)::text, false),
    set_config('tcp_keepalives_idle', greatest(1, $1 / 4000)::text, false),
    set_config('tcp_keepalives_interval', greatest(1, $1 / 4000)::text, false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', $1::text, false)
FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()

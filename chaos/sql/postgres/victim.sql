-- $1: what the name of the connection should match; another one is taken when there is none.
SELECT pid FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
ORDER BY application_name ~ $1 DESC, pid LIMIT 1

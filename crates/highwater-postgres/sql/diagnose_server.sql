-- Who answers, and how the connection to it is.
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_version') AS version_text,
    pg_is_in_recovery() AS replica,
    coalesce((SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()), false) AS encrypted

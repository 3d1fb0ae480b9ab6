-- Which server, in which life, and whether it can be written to. The timeline is read from the name of the current WAL
-- file: the control file may still show the old one for a while after a promotion. A role or a client that is read-only by
-- its own choice says nothing about the server.
SELECT (SELECT c.system_identifier FROM pg_control_system() c),
    CASE WHEN pg_is_in_recovery() THEN NULL
         ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer END,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
    current_setting('transaction_read_only')::boolean AND NOT EXISTS (
        SELECT FROM pg_settings s
        WHERE s.name = 'default_transaction_read_only' AND s.setting = 'on'
            AND s.source IN ('user', 'database user', 'client', 'session')),
    current_database()::text

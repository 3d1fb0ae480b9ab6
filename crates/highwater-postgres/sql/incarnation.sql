-- Which server, in which life. The timeline is read from the name of the current WAL file: the control file may still
-- show the old one for a while after a promotion.
SELECT (SELECT c.system_identifier FROM pg_control_system() c),
    CASE WHEN pg_is_in_recovery() THEN NULL
         ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer END,
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint

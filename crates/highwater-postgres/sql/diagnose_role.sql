-- Who asks, whether it owns the log, and whether it sees what others do.
SELECT current_user::text AS role, pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,
    (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = '{schema_text}.events'::regclass) AS owns

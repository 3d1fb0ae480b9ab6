-- Who asks, whether it owns the log, whether it sees what others do, and whether every role may create things in a schema where
-- unqualified names are looked up by default.
SELECT current_user::text AS role, pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,
    (SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = '{schema_text}.events'::regclass) AS owns,
    EXISTS (
        SELECT FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) AS a
        WHERE n.nspname = 'public' AND a.grantee = 0 AND a.privilege_type = 'CREATE') AS anybody_creates

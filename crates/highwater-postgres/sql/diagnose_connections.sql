-- How many connections there may be and are: of all roles, of this role, and to this database. -1: as many as there are.
-- Servers since 16 keep some back for roles that were granted them.
SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - CASE WHEN EXISTS (SELECT FROM pg_roles p
                            WHERE p.rolname = 'pg_use_reserved_connections' AND pg_has_role(p.oid, 'USAGE'))
            THEN 0 ELSE coalesce(current_setting('reserved_connections', true), '0')::bigint END AS room,
    (SELECT coalesce(sum(s.numbackends), 0)::bigint FROM pg_stat_database s) AS used,
    r.rolconnlimit::bigint AS role_room,
    (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid) AS role_used,
    d.datconnlimit::bigint AS database_room,
    (SELECT s.numbackends::bigint FROM pg_stat_database s WHERE s.datid = d.oid) AS database_used
FROM pg_roles r, pg_database d
WHERE r.rolname = current_user AND d.datname = current_database()

-- Whether the server ends a session that leaves a transaction open, also one of a role that nobody thought of: by a setting
-- of this database or of all roles, or by what sessions start with here, unless this role has its own setting. Servers
-- before 17 do not know the second.
SELECT s.name, quote_ident(current_database()) AS database, v.value !~ '^ *0+ *[a-z]* *$' AS bounded
FROM pg_settings s
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT substr(c.setting, length(s.name) + 2)
         FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) AS c (setting)
         WHERE d.setrole = 0 AND starts_with(c.setting, s.name || '=')
             AND d.setdatabase IN (0, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()))
         ORDER BY d.setdatabase DESC LIMIT 1),
        (SELECT '0'
         FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) AS c (setting)
         WHERE d.setrole = (SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user)
             AND starts_with(c.setting, s.name || '=')
         LIMIT 1),
        s.reset_val) AS value
) v
WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
ORDER BY s.name COLLATE "C"

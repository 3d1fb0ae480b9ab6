-- Schemas of demos that have no connection any more. Each calls its connections by its schema.
SELECT n.nspname::text
FROM pg_namespace n
WHERE n.nspname LIKE 'highwater\_demo\_run\_%'
  AND pg_has_role(n.nspowner, 'USAGE')
  AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.application_name = $1 || n.nspname)
ORDER BY 1

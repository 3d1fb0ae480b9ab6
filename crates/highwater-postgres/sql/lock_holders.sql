-- Who has the locks of subscribers, whether it leads or not; $1 is the schema, $2 the subscribers. The keys are as in
-- leadership/key.rs. Role and name of a session are visible to every role.
WITH held AS MATERIALIZED (
    SELECT k.pid, k.classid::bigint << 32 | k.objid::bigint AS key FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
        AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
SELECT s.id, h.pid, r.rolname::text, a.application_name
FROM (SELECT DISTINCT unnest($2::text[]) AS id) s
JOIN held h ON h.key = ('x' || substr(md5($1 || '/' || s.id), 1, 16))::bit(64)::bigint
LEFT JOIN pg_stat_activity a ON a.pid = h.pid
LEFT JOIN pg_roles r ON r.oid = a.usesysid
ORDER BY s.id COLLATE "C", h.pid

-- All instances, with the keys of the locks that their sessions hold; none where the session is gone. $1 is the schema; the
-- key of an instance's own lock is as in leadership/key.rs, and its holder must be the session that is named after it.
WITH held AS MATERIALIZED (
    SELECT k.pid, k.classid::bigint << 32 | k.objid::bigint AS key,
        lpad(to_hex(a.pid), 8, '0') || lpad(to_hex(a.usesysid::bigint), 8, '0') AS holder
    FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
    WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
        AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
SELECT i.session, i.instance_id, i.host, i.pid, i.label, i.wants, i.prefers,
    (SELECT array_agg(h.key) FROM held own JOIN held h ON h.pid = own.pid
     WHERE own.key = ('x' || substr(md5($1 || '//' || i.session), 1, 16))::bit(64)::bigint
        AND own.holder = left(i.session::text, 8) || right(i.session::text, 8))
FROM {schema}.event_bus_instances i
ORDER BY i.session

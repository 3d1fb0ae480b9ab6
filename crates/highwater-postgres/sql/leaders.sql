-- Who leads, by subscriber; $1 is the schema. The leader is the instance that holds the lock on the session that it took
-- over with: another may have the lock by now, and not the term yet. Any role can take both keys when that session is gone, but not
-- its process and role, after which it is named. Keys and names are as in leadership/key.rs.
WITH held AS MATERIALIZED (
    SELECT k.pid, k.classid::bigint << 32 | k.objid::bigint AS key,
        lpad(to_hex(a.pid), 8, '0') || lpad(to_hex(a.usesysid::bigint), 8, '0') AS holder
    FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
    WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
        AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
SELECT l.subscriber_id, l.instance_id, l.host, l.pid, l.label, l.since, c.term, l.session IS NOT NULL,
    EXISTS (
        SELECT FROM held h JOIN held own ON own.pid = h.pid
        WHERE h.key = ('x' || substr(md5($1 || '/' || l.subscriber_id), 1, 16))::bit(64)::bigint
            AND own.key = ('x' || substr(md5($1 || '//' || l.session), 1, 16))::bit(64)::bigint
            AND own.holder = left(l.session::text, 8) || right(l.session::text, 8))
FROM {schema}.event_bus_leaders l
JOIN {schema}.event_bus_checkpoints c ON c.subscriber_id = l.subscriber_id AND c.nonce = l.nonce
ORDER BY l.subscriber_id COLLATE "C"

-- Who leads, by subscriber; $1 is the schema. The lock's key is as in leadership/key.rs.
WITH held AS MATERIALIZED (
    SELECT k.classid::bigint << 32 | k.objid::bigint AS key FROM pg_locks k
    WHERE k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted
        AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
SELECT l.subscriber_id, l.instance_id, l.host, l.pid, l.label, l.since, c.term, l.coordinated,
    ('x' || substr(md5($1 || '/' || l.subscriber_id), 1, 16))::bit(64)::bigint IN (SELECT h.key FROM held h)
FROM {schema}.event_bus_leaders l
JOIN {schema}.event_bus_checkpoints c ON c.subscriber_id = l.subscriber_id AND c.nonce = l.nonce
ORDER BY l.subscriber_id COLLATE "C"

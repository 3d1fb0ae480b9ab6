-- The sessions whose transactions have locked or changed the checkpoint of a subscriber, and are still open.
SELECT l.pid, r.rolname::text, a.application_name, NULL::text, false
FROM {schema}.event_bus_checkpoints c
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = c.xmax AND l.granted
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_roles r ON r.oid = a.usesysid
WHERE c.subscriber_id::text = $1

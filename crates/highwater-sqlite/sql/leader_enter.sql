INSERT INTO event_bus_leaders (subscriber_id, instance_id, host, pid, label, since, term, nonce, session)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (subscriber_id) DO UPDATE
SET instance_id = excluded.instance_id, host = excluded.host, pid = excluded.pid, label = excluded.label,
    since = excluded.since, term = excluded.term, nonce = excluded.nonce, session = excluded.session

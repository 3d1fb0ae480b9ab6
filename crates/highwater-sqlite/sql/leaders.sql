SELECT l.subscriber_id, l.instance_id, l.host, l.pid, l.label, l.since, c.term, l.session
FROM event_bus_leaders l
JOIN event_bus_checkpoints c ON c.subscriber_id = l.subscriber_id AND c.nonce = l.nonce
ORDER BY l.subscriber_id

INSERT INTO event_bus_instances (session, instance_id, host, pid, label, wants, since)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (session) DO UPDATE SET wants = excluded.wants

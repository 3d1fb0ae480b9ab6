INSERT INTO {schema}.event_bus_instances AS i (session, instance_id, host, pid, label, wants, prefers)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (session) DO UPDATE SET wants = excluded.wants, prefers = excluded.prefers

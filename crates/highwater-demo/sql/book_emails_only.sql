SELECT CAST(0 AS bigint), count(*)
FROM demo_emails m
WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = m.event_id AND e.event_type = 'Placed')

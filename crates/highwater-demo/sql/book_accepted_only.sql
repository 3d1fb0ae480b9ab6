SELECT CAST(0 AS bigint), count(*)
FROM events e
WHERE NOT EXISTS (SELECT 1 FROM demo_accepted a WHERE a.order_id = e.stream_id)

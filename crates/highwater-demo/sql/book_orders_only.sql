SELECT CAST(0 AS bigint), count(*) FROM demo_orders o WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.stream_id = o.order_id)

INSERT INTO demo_orders (order_id, customer, status, events) VALUES ($1, $2, $3, 1)
ON CONFLICT (order_id) DO UPDATE SET status = excluded.status, events = demo_orders.events + 1

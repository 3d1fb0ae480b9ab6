-- Orders in the log, and those whose row knows the customer, has counted each of their events once, and says what the last
-- one made of it.
SELECT
    (SELECT count(*) FROM events WHERE event_type = 'Placed'),
    (SELECT count(*)
     FROM demo_orders o
     JOIN events placed ON placed.stream_id = o.order_id AND placed.event_type = 'Placed'
     JOIN (SELECT stream_id, count(*) AS events FROM events GROUP BY stream_id) e ON e.stream_id = o.order_id
     WHERE o.events = e.events AND o.status = 'shipped' AND o.customer = CAST(placed.data ->> 'customer' AS bigint))

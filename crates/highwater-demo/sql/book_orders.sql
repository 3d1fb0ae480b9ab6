-- Orders in the log, and those whose row knows the customer, has counted each of their events once, and says what the last
-- one made of it.
SELECT
    (SELECT count(*) FROM events WHERE event_type = 'Placed'),
    (SELECT count(*)
     FROM (SELECT stream_id,
               count(*) AS events,
               max(CASE WHEN event_type = 'Placed' THEN CAST(data ->> 'customer' AS bigint) END) AS customer
           FROM events GROUP BY stream_id) e
     JOIN demo_orders o ON o.order_id = e.stream_id
     WHERE o.events = e.events AND o.customer = e.customer AND o.status = 'shipped')

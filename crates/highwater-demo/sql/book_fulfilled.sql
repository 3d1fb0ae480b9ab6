-- Events, and those of orders that were placed, paid in full and shipped to who ordered, in this order.
SELECT
    (SELECT count(*) FROM events),
    (SELECT 3 * count(*)
     FROM events placed
     JOIN events paid ON paid.stream_id = placed.stream_id AND paid.stream_version = 2
     JOIN events shipped ON shipped.stream_id = placed.stream_id AND shipped.stream_version = 3
     WHERE placed.stream_version = 1
       AND placed.event_type = 'Placed' AND paid.event_type = 'Paid' AND shipped.event_type = 'Shipped'
       AND paid.data ->> 'cents' = placed.data ->> 'cents'
       AND paid.data ->> 'customer' = placed.data ->> 'customer'
       AND shipped.data ->> 'customer' = placed.data ->> 'customer')

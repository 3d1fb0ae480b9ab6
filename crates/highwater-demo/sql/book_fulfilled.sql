-- Orders, and those that were paid once, shipped once, and nothing else, in this order.
SELECT
    (SELECT count(*) FROM events WHERE event_type = 'Placed'),
    (SELECT count(*)
     FROM events placed
     JOIN events paid ON paid.stream_id = placed.stream_id AND paid.event_type = 'Paid' AND paid.stream_version = 2
     JOIN events shipped
         ON shipped.stream_id = placed.stream_id AND shipped.event_type = 'Shipped' AND shipped.stream_version = 3
     WHERE placed.event_type = 'Placed' AND placed.stream_version = 1)
    - (SELECT count(*) FROM events WHERE stream_version > 3)

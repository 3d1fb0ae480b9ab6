-- Orders that were accepted, and those that begin a stream of the log: the same order, by the same customer, for as much.
SELECT
    CAST($1 AS bigint),
    (SELECT count(*)
     FROM demo_accepted a
     JOIN events e ON e.stream_id = a.order_id AND e.stream_version = 1
     WHERE e.event_type = 'Placed'
       AND CAST(e.data ->> 'customer' AS bigint) = a.customer
       AND CAST(e.data ->> 'cents' AS bigint) = a.cents)

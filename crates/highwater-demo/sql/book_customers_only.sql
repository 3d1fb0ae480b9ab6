SELECT CAST(0 AS bigint), count(*)
FROM demo_revenue
WHERE customer NOT IN (SELECT CAST(data ->> 'customer' AS bigint) FROM events WHERE event_type = 'Paid')

SELECT
    (SELECT CAST(coalesce(sum(CAST(data ->> 'cents' AS bigint)), 0) AS bigint) FROM events WHERE event_type = 'Paid'),
    (SELECT CAST(coalesce(sum(cents), 0) AS bigint) FROM demo_revenue)

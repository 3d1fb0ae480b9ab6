SELECT instance, CAST(sum(events) AS bigint) FROM demo_work GROUP BY instance ORDER BY instance

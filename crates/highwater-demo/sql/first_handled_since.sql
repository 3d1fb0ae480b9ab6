SELECT subscriber_id, instance, CAST(min(handled_at) AS bigint)
FROM demo_work
WHERE handled_at > $1 AND instance <> $2
GROUP BY subscriber_id, instance

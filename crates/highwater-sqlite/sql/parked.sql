SELECT stream_id, count(*) FROM event_bus_dlq
WHERE subscriber_id = $1 AND parks AND state IN ('dead', 'parked')
GROUP BY stream_id ORDER BY stream_id

DELETE FROM event_bus_dlq
WHERE subscriber_id = $1 AND resolved_at < $2 AND state NOT IN ('dead', 'parked')

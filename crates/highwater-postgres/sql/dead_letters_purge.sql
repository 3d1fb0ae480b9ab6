WITH requests AS (DELETE FROM {schema}.event_bus_requests WHERE subscriber_id = $1 AND finished_at < $2)
DELETE FROM {schema}.event_bus_dlq
WHERE subscriber_id = $1 AND resolved_at < $2 AND state NOT IN ('dead', 'parked')

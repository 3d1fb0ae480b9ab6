SELECT count(*) FROM {schema}.event_bus_dlq
WHERE subscriber_id::text = $1 AND stream_id = $2 AND parks AND state IN ('dead', 'parked')

SELECT id, subscriber_id, event_id, global_sequence, stream_id, event_type, error_message,
    retry_count::bigint AS retry_count, created_at, last_retry_at, state, parks, resolved_at, resolved_by, reason,
    (SELECT e.stream_name FROM {schema}.events e WHERE e.id = event_bus_dlq.event_id) AS stream_name
FROM {schema}.event_bus_dlq WHERE id = $1

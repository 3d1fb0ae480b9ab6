SELECT id, subscriber_id, event_id, global_sequence, stream_id, event_type, error_message,
    retry_count::bigint AS retry_count, created_at, last_retry_at, state, parks, resolved_at, resolved_by, reason,
    (SELECT e.stream_name FROM {schema}.events e WHERE e.id = event_bus_dlq.event_id) AS stream_name
FROM {schema}.event_bus_dlq
WHERE ($1::text IS NULL OR subscriber_id = $1) AND ($2::uuid IS NULL OR stream_id = $2)
    AND ($3::timestamptz IS NULL OR created_at >= $3) AND ($4::timestamptz IS NULL OR created_at < $4)
    AND state = ANY ($5) AND ($6::text IS NULL OR event_type = $6)
    AND ($7::bigint IS NULL OR (global_sequence, id) > ($7, $8::uuid))
ORDER BY global_sequence, id LIMIT $9

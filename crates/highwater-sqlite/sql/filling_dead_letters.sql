INSERT INTO event_bus_dlq
    (id, subscriber_id, event_id, global_sequence, stream_id, event_type, error_message, retry_count, created_at,
     last_retry_at, state, parks, resolved_at, resolved_by, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

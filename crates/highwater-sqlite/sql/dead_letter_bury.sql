-- The event's dead letter may be there: resolved, or from an attempt whose answer was lost.
INSERT INTO event_bus_dlq
    (id, subscriber_id, event_id, global_sequence, stream_id, event_type, error_message, retry_count, state, parks,
     created_at, last_retry_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, CASE WHEN $8 > 0 THEN $11 END)
ON CONFLICT (subscriber_id, event_id) DO UPDATE
SET global_sequence = excluded.global_sequence, stream_id = excluded.stream_id, event_type = excluded.event_type,
    error_message = excluded.error_message, retry_count = excluded.retry_count, state = excluded.state,
    parks = excluded.parks, created_at = excluded.created_at, last_retry_at = excluded.last_retry_at,
    resolved_at = NULL, resolved_by = NULL, reason = NULL

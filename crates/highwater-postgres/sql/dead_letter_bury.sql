-- The event's dead letter may be there: resolved, or from an attempt whose answer was lost.
INSERT INTO {schema}.event_bus_dlq
    (subscriber_id, event_id, global_sequence, stream_id, event_type, error_message, retry_count, state, parks,
     last_retry_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $7 > 0 THEN now() END)
ON CONFLICT (subscriber_id, event_id) DO UPDATE
SET global_sequence = excluded.global_sequence, stream_id = excluded.stream_id, event_type = excluded.event_type,
    error_message = excluded.error_message, retry_count = excluded.retry_count, state = excluded.state,
    parks = excluded.parks, created_at = now(), last_retry_at = excluded.last_retry_at, resolved_at = NULL,
    resolved_by = NULL, reason = NULL

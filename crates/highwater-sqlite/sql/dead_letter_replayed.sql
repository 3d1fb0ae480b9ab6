UPDATE event_bus_dlq
SET state = 'replayed', retry_count = retry_count + 1, last_retry_at = $4, resolved_at = $4, resolved_by = $3
WHERE id = $1 AND subscriber_id = $2 AND state IN ('dead', 'parked')
RETURNING stream_id

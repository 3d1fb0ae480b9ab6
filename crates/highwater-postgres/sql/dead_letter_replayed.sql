WITH resolved AS (
    UPDATE {schema}.event_bus_dlq
    SET state = 'replayed', retry_count = retry_count + 1, last_retry_at = now(), resolved_at = now(), resolved_by = $3
    WHERE id = $1 AND subscriber_id::text = $2 AND state IN ('dead', 'parked')
    RETURNING id, stream_id
), attempt AS (
    INSERT INTO {schema}.event_bus_dlq_attempts (dead_letter_id, attempted_by, outcome)
    SELECT l.id, $3, 'replayed' FROM resolved l
)
SELECT stream_id FROM resolved

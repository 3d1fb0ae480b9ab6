WITH failed AS (
    UPDATE {schema}.event_bus_dlq
    SET state = 'dead', error_message = $4, retry_count = retry_count + 1, last_retry_at = now()
    WHERE id = $1 AND subscriber_id::text = $2 AND state IN ('dead', 'parked')
    RETURNING id, stream_id
), attempt AS (
    INSERT INTO {schema}.event_bus_dlq_attempts (dead_letter_id, attempted_by, outcome, detail)
    SELECT l.id, $3, 'failed', $4 FROM failed l
)
SELECT stream_id FROM failed

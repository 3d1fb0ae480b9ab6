WITH resolved AS (
    UPDATE {schema}.event_bus_dlq SET state = 'archived', resolved_at = now(), resolved_by = $2
    WHERE subscriber_id::text = $1 AND state IN ('dead', 'parked') AND global_sequence > $3
    RETURNING id
)
INSERT INTO {schema}.event_bus_dlq_attempts (dead_letter_id, attempted_by, outcome)
SELECT l.id, $2, 'archived' FROM resolved l

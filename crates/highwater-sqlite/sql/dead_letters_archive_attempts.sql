INSERT INTO event_bus_dlq_attempts (dead_letter_id, attempted_at, attempted_by, outcome)
SELECT id, $3, $2, 'archived' FROM event_bus_dlq WHERE subscriber_id = $1 AND state IN ('dead', 'parked') AND global_sequence > $4

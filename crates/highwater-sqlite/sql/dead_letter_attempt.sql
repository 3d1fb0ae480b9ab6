INSERT INTO event_bus_dlq_attempts (dead_letter_id, attempted_at, attempted_by, outcome, detail)
VALUES ($1, $2, $3, $4, $5)

INSERT INTO event_bus_dlq_attempts (letter, attempted_at, attempted_by, outcome, detail) VALUES ($1, $2, $3, $4, $5)

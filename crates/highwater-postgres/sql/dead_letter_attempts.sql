SELECT attempted_at, attempted_by, outcome, detail FROM {schema}.event_bus_dlq_attempts
WHERE dead_letter_id = $1 ORDER BY id

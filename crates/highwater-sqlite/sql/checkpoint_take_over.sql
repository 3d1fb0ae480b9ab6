INSERT INTO event_bus_checkpoints (subscriber_id, last_global_sequence, updated_at, term, nonce)
SELECT $1, $2, $3, $4, $5
-- One that is new does not start at an event that is gone.
WHERE $6 IS NULL OR EXISTS (SELECT 1 FROM events WHERE id = $6) OR EXISTS (SELECT 1 FROM event_bus_checkpoints WHERE subscriber_id = $1)
ON CONFLICT (subscriber_id) DO UPDATE
SET term = excluded.term, nonce = excluded.nonce, updated_at = excluded.updated_at, opened = NULL
RETURNING subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce, setup_version, (SELECT number FROM life)

INSERT INTO event_bus_checkpoints (subscriber_id, last_global_sequence, updated_at, term, nonce, last_event_id)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (subscriber_id) DO UPDATE
SET term = excluded.term, nonce = excluded.nonce, updated_at = excluded.updated_at, opened = NULL
RETURNING subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce, setup_version, (SELECT number FROM life)

INSERT INTO event_bus_checkpoints (subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce)
VALUES ($1, $2, $3, $4, $5, $6)

-- The transaction writes itself down, so that its last statement can tell whether it is still the same.
UPDATE event_bus_checkpoints SET opened = $2 WHERE subscriber_id = $1
RETURNING last_global_sequence, term, nonce, (SELECT number FROM life)

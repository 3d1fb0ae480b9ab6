SELECT subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce, setup_version, (SELECT number FROM life)
FROM event_bus_checkpoints WHERE subscriber_id = $1

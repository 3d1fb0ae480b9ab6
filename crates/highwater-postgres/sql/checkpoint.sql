SELECT subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce, coalesce({life}, 0), setup_version
FROM {schema}.event_bus_checkpoints WHERE subscriber_id = $1

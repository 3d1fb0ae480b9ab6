SELECT subscriber_id, term, nonce, last_global_sequence
FROM {schema}.event_bus_checkpoints WHERE subscriber_id = ANY ($1)

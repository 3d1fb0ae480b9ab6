SELECT subscriber_id, term, nonce FROM {schema}.event_bus_checkpoints WHERE subscriber_id = ANY ($1)

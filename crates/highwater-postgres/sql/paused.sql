SELECT subscriber_id FROM {schema}.event_bus_pauses WHERE subscriber_id = ANY ($1)

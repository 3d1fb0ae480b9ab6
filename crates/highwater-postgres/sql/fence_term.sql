SELECT term FROM {schema}.event_bus_checkpoints WHERE subscriber_id = $1

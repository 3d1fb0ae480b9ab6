SELECT term FROM {schema}.event_bus_checkpoints WHERE subscriber_id::text = $1

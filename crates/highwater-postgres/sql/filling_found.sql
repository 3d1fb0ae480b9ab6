SELECT EXISTS (SELECT FROM {schema}.events), EXISTS (SELECT FROM {schema}.event_bus_checkpoints),
    EXISTS (SELECT FROM {schema}.event_bus_dlq), EXISTS (SELECT FROM {schema}.event_bus_requests)

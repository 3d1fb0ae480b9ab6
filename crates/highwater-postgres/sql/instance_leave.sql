DELETE FROM {schema}.event_bus_instances WHERE session = $1

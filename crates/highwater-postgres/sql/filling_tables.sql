-- Waits for the present writers, and keeps others from writing.
LOCK TABLE {schema}.events, {schema}.event_bus_checkpoints, {schema}.event_bus_pauses, {schema}.event_bus_dlq,
    {schema}.event_bus_dlq_attempts, {schema}.event_bus_requests IN SHARE ROW EXCLUSIVE MODE

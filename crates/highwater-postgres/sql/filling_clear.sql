-- Attempts go with their dead letters.
WITH checkpoints AS (DELETE FROM {schema}.event_bus_checkpoints),
pauses AS (DELETE FROM {schema}.event_bus_pauses),
dead_letters AS (DELETE FROM {schema}.event_bus_dlq)
DELETE FROM {schema}.event_bus_requests

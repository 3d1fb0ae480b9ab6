WITH known AS (SELECT c.subscriber_id FROM {schema}.event_bus_checkpoints c WHERE c.subscriber_id = $1),
paused AS (
    INSERT INTO {schema}.event_bus_pauses (subscriber_id) SELECT k.subscriber_id FROM known k ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM known)

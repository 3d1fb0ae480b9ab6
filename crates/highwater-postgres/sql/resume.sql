WITH resumed AS (DELETE FROM {schema}.event_bus_pauses WHERE subscriber_id = $1)
SELECT EXISTS (SELECT FROM {schema}.event_bus_checkpoints c WHERE c.subscriber_id = $1)

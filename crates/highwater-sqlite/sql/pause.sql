INSERT INTO event_bus_pauses (subscriber_id, paused_at) SELECT c.subscriber_id, $2 FROM event_bus_checkpoints c
WHERE c.subscriber_id = $1
ON CONFLICT DO NOTHING

SELECT c.subscriber_id, c.last_global_sequence, l.label
FROM {schema}event_bus_checkpoints c LEFT JOIN {schema}event_bus_leaders l ON l.subscriber_id = c.subscriber_id
ORDER BY c.subscriber_id

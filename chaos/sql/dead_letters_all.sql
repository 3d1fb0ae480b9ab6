SELECT subscriber_id, global_sequence, event_id, stream_id, state, parks
FROM {schema}event_bus_dlq ORDER BY global_sequence, subscriber_id

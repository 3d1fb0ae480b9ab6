SELECT global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at
FROM highwater.events WHERE stream_id = $1
ORDER BY stream_version

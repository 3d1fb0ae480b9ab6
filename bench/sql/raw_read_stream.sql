SELECT global_sequence, id, stream_id, stream_version, event_type, created_at, data, metadata
FROM raw.events WHERE stream_id = $1
ORDER BY stream_version

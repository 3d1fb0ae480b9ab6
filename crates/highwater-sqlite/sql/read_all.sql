SELECT global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at
FROM events WHERE global_sequence > $1
ORDER BY global_sequence LIMIT $2

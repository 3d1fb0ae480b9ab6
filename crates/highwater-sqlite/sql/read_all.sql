SELECT global_sequence, CAST(id || stream_id AS BLOB), stream_version, event_type, schema_version, data, metadata, created_at
FROM events WHERE global_sequence > $1
ORDER BY global_sequence LIMIT $2

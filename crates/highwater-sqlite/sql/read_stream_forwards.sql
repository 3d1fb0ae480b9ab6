SELECT global_sequence, CAST(id || stream_id AS BLOB), stream_version, event_type, schema_version, data, metadata, created_at
FROM events WHERE stream_id = $1 AND stream_version >= $2
ORDER BY stream_version LIMIT $3

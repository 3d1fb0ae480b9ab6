SELECT global_sequence, id, stream_id, stream_version, event_type, created_at, data, metadata
FROM raw.events WHERE global_sequence > $1
ORDER BY global_sequence LIMIT $2

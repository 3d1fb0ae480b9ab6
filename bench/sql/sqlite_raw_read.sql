SELECT global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at
FROM raw_events ORDER BY global_sequence

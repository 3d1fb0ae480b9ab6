INSERT INTO raw_events (stream_version, created_at, id, stream_id, schema_version, event_type, data, metadata)
VALUES (1, ?, ?, ?, 1, ?, ?, '{}')

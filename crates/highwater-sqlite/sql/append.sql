-- For several events the last line is repeated.
INSERT INTO events (stream_version, created_at, id, stream_id, schema_version, event_type, data, metadata) VALUES
(?, ?, ?, ?, ?, ?, ?, ?)

-- For several events the last line is repeated.
INSERT INTO events
    (global_sequence, stream_version, created_at, id, stream_id, schema_version, event_type, data, metadata) VALUES
(?, ?, ?, ?, ?, ?, ?, ?, ?)

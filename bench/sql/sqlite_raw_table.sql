CREATE TABLE raw_events (
    global_sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    stream_id BLOB NOT NULL,
    schema_version INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    data TEXT NOT NULL,
    metadata TEXT NOT NULL
) STRICT

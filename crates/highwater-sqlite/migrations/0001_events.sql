-- The log. AUTOINCREMENT: a plain rowid would be used again after the last row was deleted. There is one writer at a time,
-- so numbers are drawn and become visible in the same order.
--
-- Ids are 16 bytes, times are microseconds since 1970. In plain SQL: hex(id), datetime(created_at / 1000000, 'unixepoch').
CREATE TABLE events (
    global_sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_version INTEGER NOT NULL CHECK (stream_version > 0),
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    stream_id BLOB NOT NULL CHECK (length(stream_id) = 16),
    schema_version INTEGER NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    event_type TEXT NOT NULL CHECK (length(CAST(event_type AS BLOB)) BETWEEN 1 AND 255),
    data TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}',
    -- An event has the name of the event before it in its stream; where that has none, the one that its append brings. So every
    -- event of a stream that began with a name has it, also when a writer appends by its id alone, and a reader needs no second
    -- look. Other writers may call streams as they like, as long as it can be copied.
    stream_name TEXT CHECK (length(CAST(stream_name AS BLOB)) <= 1000),
    CONSTRAINT events_id_key UNIQUE (id),
    CONSTRAINT events_stream_version_key UNIQUE (stream_id, stream_version)
) STRICT;

-- One entry per stream, for lists by kind.
CREATE INDEX events_stream_name_idx ON events (stream_name, stream_id) WHERE stream_version = 1 AND stream_name IS NOT NULL;

-- Names of streams. An event has the name of the event before it in its stream; where that has none, the one that its append
-- brings. So every event of a stream that began with a name has it, also when a writer appends by its id
-- alone, and a reader needs no second look.
-- Other writers may call streams as they like, as long as it can be copied.
ALTER TABLE events ADD COLUMN stream_name TEXT CHECK (length(CAST(stream_name AS BLOB)) <= 1000);

-- One entry per stream, for lists by kind.
CREATE INDEX events_stream_name_idx ON events (stream_name, stream_id) WHERE stream_version = 1 AND stream_name IS NOT NULL;

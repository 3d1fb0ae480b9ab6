-- What a stream can be found by. The limit of appending has no index but the primary key, so it is made when the first is loaded.
CREATE INDEX IF NOT EXISTS events_streams ON raw.events (stream_id, stream_version)

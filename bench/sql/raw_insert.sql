INSERT INTO raw.events (stream_version, created_at, id, stream_id, event_type, data, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7)

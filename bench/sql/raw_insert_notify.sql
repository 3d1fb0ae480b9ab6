WITH inserted AS (
    INSERT INTO raw.events (stream_version, created_at, id, stream_id, event_type, data, metadata)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    RETURNING global_sequence
)
SELECT pg_notify($8, global_sequence::text) FROM inserted

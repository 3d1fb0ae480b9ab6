-- One event by itself; as a statement that writes it has the lock before it reads. Nothing is stored where the stream is not
-- as expected ($8: NULL any, -1 it exists, n its version is n), and where the table has triggers: what they have done is looked
-- at in a transaction.
INSERT INTO events (stream_version, created_at, id, stream_id, schema_version, event_type, data, metadata)
SELECT h.head + 1, $2, $3, $1, $4, $5, $6, $7
FROM (SELECT coalesce(max(e.stream_version), 0) AS head FROM events e WHERE e.stream_id = $1) h
WHERE ($8 IS NULL OR CASE $8 WHEN -1 THEN h.head > 0 ELSE h.head = $8 END)
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema t WHERE t.type = 'trigger' AND t.tbl_name = 'events' COLLATE NOCASE)
RETURNING stream_version, global_sequence

-- One event by itself; as a statement that writes it has the lock before it reads. Nothing is stored where the stream ($5) is not
-- as expected ($1: NULL any, -1 it exists, n its version is n), and where the table has triggers: what they have done is looked
-- at in a transaction. The name beside max() is that of the row which has it.
INSERT INTO events ({columns})
SELECT NULL, h.head + 1, coalesce(h.name, $2), {own}
FROM (SELECT coalesce(max(e.stream_version), 0) AS head, e.stream_name AS name FROM events e WHERE e.stream_id = $5) h
WHERE ($1 IS NULL OR CASE $1 WHEN -1 THEN h.head > 0 ELSE h.head = $1 END)
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema t WHERE t.type = 'trigger' AND t.tbl_name = 'events' COLLATE NOCASE)
RETURNING stream_version, global_sequence

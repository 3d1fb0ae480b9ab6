-- $1: the subscriber; $2: a JSON array of [global_sequence, stream_id, stream_version]; $3: who writes.
INSERT INTO chaos_rows (subscriber_id, global_sequence, term, written_by)
SELECT $1, event.value ->> 0, checkpoint.term, $3
FROM event_bus_checkpoints checkpoint, json_each($2) AS event
WHERE checkpoint.subscriber_id = $1
ORDER BY event.key

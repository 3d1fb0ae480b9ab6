-- $1: a JSON array of [id, stream_id, stream_version, event_type, data].
INSERT INTO highwater.events (id, stream_id, stream_version, event_type, data)
SELECT (event.value ->> 0)::uuid, (event.value ->> 1)::uuid, (event.value ->> 2)::bigint, event.value ->> 3, event.value -> 4
FROM json_array_elements($1::json) WITH ORDINALITY AS event (value, place)
ORDER BY event.place
RETURNING global_sequence

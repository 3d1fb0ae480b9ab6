-- The versions of streams, in the order they are asked for, as one array.
SELECT json_group_array(
    coalesce((SELECT max(e.stream_version) FROM events e WHERE e.stream_id = unhex(s.value)), 0) ORDER BY s.key)
FROM json_each($1) s

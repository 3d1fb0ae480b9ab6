-- The versions of streams, in the order they are asked for, as one array; and whether the table has triggers, which may drop
-- rows or store others.
SELECT json_group_array(
    coalesce((SELECT max(e.stream_version) FROM events e WHERE e.stream_id = unhex(s.value)), 0) ORDER BY s.key),
    EXISTS (SELECT 1 FROM sqlite_schema t WHERE t.type = 'trigger' AND t.tbl_name = 'events' COLLATE NOCASE)
FROM json_each($1) s

-- The versions of streams and their names, in the order they are asked for, as one array; and whether the table has triggers,
-- which may drop rows or store others. The name beside max() is that of the row which has it.
SELECT json_group_array(
    (SELECT json_array(coalesce(max(e.stream_version), 0), e.stream_name) FROM events e WHERE e.stream_id = unhex(s.value))
    ORDER BY s.key),
    EXISTS (SELECT 1 FROM sqlite_schema t WHERE t.type = 'trigger' AND t.tbl_name = 'events' COLLATE NOCASE)
FROM json_each($1) s

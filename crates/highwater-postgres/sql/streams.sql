-- $1 is a prefix, $2 what is greater than all names that begin with it, or NULL; after the stream $3, $4.
SELECT f.stream_name, f.stream_id, (SELECT max(e.stream_version) FROM {schema}.events e WHERE e.stream_id = f.stream_id)
FROM {schema}.events f
WHERE f.stream_version = 1 AND f.stream_name IS NOT NULL AND f.stream_name COLLATE "C" >= $1
    AND ($2::text IS NULL OR f.stream_name COLLATE "C" < $2)
    AND ($3::text IS NULL OR (f.stream_name COLLATE "C", f.stream_id) > ($3, $4))
ORDER BY f.stream_name COLLATE "C", f.stream_id LIMIT $5

SELECT s.id, coalesce((SELECT max(e.stream_version) FROM {schema}.events e WHERE e.stream_id = s.id), 0)
FROM pg_catalog.unnest($1::uuid[]) AS s (id)

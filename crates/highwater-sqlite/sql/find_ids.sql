SELECT global_sequence, CAST(id || stream_id AS BLOB), stream_version, event_type, schema_version, data, metadata, created_at
FROM events WHERE id IN (SELECT unhex(i.value) FROM json_each($1) i)

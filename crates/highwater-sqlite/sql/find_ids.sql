SELECT global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at
FROM events WHERE id IN (SELECT unhex(i.value) FROM json_each($1) i)

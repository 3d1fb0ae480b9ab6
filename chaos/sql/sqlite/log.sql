SELECT global_sequence, id, stream_id, stream_version, event_type, data ->> '$.to'
FROM {schema}events ORDER BY global_sequence

SELECT global_sequence, id, stream_id, stream_version::bigint, event_type::text, data ->> 'to'
FROM {schema}events ORDER BY global_sequence

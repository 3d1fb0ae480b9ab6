INSERT INTO {schema}.events
    (global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at)
OVERRIDING SYSTEM VALUE
SELECT e.number, e.id, e.stream_id, e.version, e.event_type, e.schema_version, e.data::json, e.metadata::json, e.made
FROM unnest($1::bigint[], $2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::integer[], $7::text[], $8::text[],
    $9::timestamptz[]) AS e (number, id, stream_id, version, event_type, schema_version, data, metadata, made)

INSERT INTO {schema}.event_bus_dlq
    (id, subscriber_id, event_id, global_sequence, stream_id, event_type, error_message, retry_count, created_at,
     last_retry_at, state, parks, resolved_at, resolved_by, reason)
SELECT *
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::integer[],
    $9::timestamptz[], $10::timestamptz[], $11::text[], $12::boolean[], $13::timestamptz[], $14::text[], $15::text[])

INSERT INTO {schema}.event_bus_requests
    (id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[],
    $8::timestamptz[])

SELECT count(*) FROM {schema}.event_bus_dlq
WHERE ($1::text IS NULL OR subscriber_id = $1) AND ($2::uuid IS NULL OR stream_id = $2)
    AND ($3::timestamptz IS NULL OR created_at >= $3) AND ($4::timestamptz IS NULL OR created_at < $4)
    AND state = ANY ($5) AND ($6::text IS NULL OR event_type = $6)

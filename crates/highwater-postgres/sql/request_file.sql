INSERT INTO {schema}.event_bus_requests
    (id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING

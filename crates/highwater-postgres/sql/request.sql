SELECT id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at, finished_at, done,
    failed, error
FROM {schema}.event_bus_requests WHERE id = $1

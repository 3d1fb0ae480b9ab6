-- A dead letter by itself, as an engine would write it that does not know better.
INSERT INTO highwater.event_bus_dlq
    (subscriber_id, event_id, global_sequence, stream_id, event_type, error_message, retry_count, state, parks)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (subscriber_id, event_id) DO NOTHING

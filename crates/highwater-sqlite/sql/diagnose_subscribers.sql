-- How far behind each subscriber is, at most: numbers may have holes.
SELECT c.subscriber_id, coalesce((SELECT max(e.global_sequence) FROM events e), 0) - c.last_global_sequence, c.updated_at,
    p.subscriber_id IS NOT NULL
FROM event_bus_checkpoints c LEFT JOIN event_bus_pauses p ON p.subscriber_id = c.subscriber_id
ORDER BY c.subscriber_id

-- How far behind each subscriber is, at most: numbers may have holes.
SELECT c.subscriber_id, greatest(h.head - c.last_global_sequence, 0) AS behind,
    extract(epoch FROM clock_timestamp() - c.updated_at)::float8 AS idle, p.paused_at IS NOT NULL AS paused
FROM {schema}.event_bus_checkpoints c
LEFT JOIN {schema}.event_bus_pauses p ON p.subscriber_id = c.subscriber_id
CROSS JOIN (SELECT coalesce(max(e.global_sequence), 0) AS head FROM {schema}.events e) h
ORDER BY c.subscriber_id COLLATE "C"

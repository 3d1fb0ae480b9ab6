UPDATE event_bus_dlq SET state = 'archived', resolved_at = $3, resolved_by = $2
WHERE subscriber_id = $1 AND state IN ('dead', 'parked') AND global_sequence > $4

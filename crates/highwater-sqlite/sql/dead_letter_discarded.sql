UPDATE event_bus_dlq SET state = 'discarded', resolved_at = $4, resolved_by = $3, reason = $5
WHERE id = $1 AND subscriber_id = $2 AND state IN ('dead', 'parked')
RETURNING stream_id

SELECT {event}
FROM events WHERE global_sequence > $1 AND global_sequence <= $2 AND event_type IN (SELECT t.value FROM json_each($4) t)
ORDER BY global_sequence LIMIT $3

SELECT {event}
FROM events WHERE global_sequence > $1
ORDER BY global_sequence LIMIT $2

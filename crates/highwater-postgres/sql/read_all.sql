SELECT {event}
FROM {schema}.events WHERE global_sequence > $1 AND global_sequence <= $2 AND (SELECT {schema}.insist_on_life($4))
ORDER BY global_sequence LIMIT $3

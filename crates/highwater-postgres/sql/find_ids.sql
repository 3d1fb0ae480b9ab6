SELECT {event}
FROM {schema}.events WHERE id = ANY ($1)

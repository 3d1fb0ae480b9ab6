SELECT {event}
FROM events WHERE id IN (SELECT unhex(i.value) FROM json_each($1) i)

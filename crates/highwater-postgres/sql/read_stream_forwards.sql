SELECT {event}
FROM {schema}.events WHERE stream_id = $1 AND stream_version >= $2
ORDER BY stream_version LIMIT $3

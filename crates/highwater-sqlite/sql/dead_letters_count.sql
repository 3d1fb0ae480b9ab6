SELECT count(*) FROM event_bus_dlq
WHERE ($1 IS NULL OR subscriber_id = $1) AND ($2 IS NULL OR stream_id = $2)
    AND ($3 IS NULL OR created_at >= $3) AND ($4 IS NULL OR created_at < $4)
    AND state IN (SELECT s.value FROM json_each($5) s) AND ($6 IS NULL OR event_type = $6)

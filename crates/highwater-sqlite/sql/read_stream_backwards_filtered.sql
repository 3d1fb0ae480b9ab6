SELECT {event}
FROM events WHERE stream_id = $1 AND stream_version <= $2 AND global_sequence > $4
    AND ($5 IS NULL OR event_type IN (SELECT t.value FROM json_each($5) t))
ORDER BY stream_version DESC LIMIT $3

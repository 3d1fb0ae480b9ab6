SELECT {event}
FROM events WHERE global_sequence > $1 AND global_sequence <= $2
    AND ($4 IS NULL OR event_type IN (SELECT t.value FROM json_each($4) t))
    AND substr(stream_name, 1, instr(stream_name || '/', '/') - 1) IN (SELECT k.value FROM json_each($5) k)
ORDER BY global_sequence LIMIT $3

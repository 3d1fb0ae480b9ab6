SELECT {event}
FROM {schema}.events WHERE stream_id = $1 AND stream_version <= $2 AND global_sequence > $4
    AND ($5::text[] IS NULL OR event_type = ANY ($5))
ORDER BY stream_version DESC LIMIT $3

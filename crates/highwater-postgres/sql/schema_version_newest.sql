-- Backwards, and no further than the last event of the type and some numbers before it; $2 is how many.
SELECT max(e.schema_version) FROM {schema}.events e
WHERE e.event_type = $1 AND e.global_sequence >= (
    SELECT l.global_sequence FROM {schema}.events l WHERE l.event_type = $1 ORDER BY l.global_sequence DESC LIMIT 1) - $2

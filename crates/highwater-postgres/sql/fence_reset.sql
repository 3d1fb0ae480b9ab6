UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $4, last_event_id = NULL, updated_at = now(),
    term = nextval('{schema_text}.event_bus_terms'), nonce = $5
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3
RETURNING term, nonce

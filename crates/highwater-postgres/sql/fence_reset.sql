UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $4, last_event_id = NULL, updated_at = now(),
    settled_to = CASE WHEN settled_in = {sequence} THEN greatest(settled_to, $6) ELSE $6 END, settled_in = {sequence},
    term = nextval('{schema_text}.event_bus_terms'::regclass), nonce = $5, setup_version = coalesce($8, setup_version)
WHERE subscriber_id::text = $1 AND term = $2 AND nonce = $3
    AND current_setting('highwater.fence', true) = pg_current_xact_id_if_assigned()::text AND $7 = {life}
RETURNING term, nonce

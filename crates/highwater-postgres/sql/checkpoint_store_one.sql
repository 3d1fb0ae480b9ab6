-- Every expression less is felt here. Never back: a write that arrives late, behind a newer one, changes nothing.
UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $4, last_event_id = $5, updated_at = now(),
    settled_to = CASE WHEN settled_in = {sequence} THEN greatest(settled_to, $6) ELSE $6 END, settled_in = {sequence}
WHERE subscriber_id = $1 AND term = $2 AND nonce = $3 AND last_global_sequence <= $4 AND $7 = {life}

-- Of a term the nonce is enough to know it by, and every expression less is felt here. Never back: a write that arrives
-- late, behind a newer one, changes nothing.
UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $3, last_event_id = $4, updated_at = now()
WHERE subscriber_id = $1 AND nonce = $2 AND last_global_sequence <= $3

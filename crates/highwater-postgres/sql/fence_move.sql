-- See fence_lock. What is settled stays settled, and only in the life that it was proved in: the handler took its time.
UPDATE {schema}.event_bus_checkpoints
SET last_global_sequence = $5, last_event_id = coalesce($6, last_event_id), updated_at = now(),
    settled_to = CASE WHEN settled_in = {sequence} THEN greatest(settled_to, $7) ELSE $7 END, settled_in = {sequence}
WHERE subscriber_id::text = $1 AND term = $2 AND nonce = $3
    AND current_setting('highwater.fence', true) = pg_current_xact_id_if_assigned()::text AND last_global_sequence = $4
    AND $8 = {life}

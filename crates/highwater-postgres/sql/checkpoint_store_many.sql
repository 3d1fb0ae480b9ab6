-- Locked first, and what another transaction holds is left out: the others do not wait for it. Never back, as in
-- checkpoint_store_one.
WITH mine AS MATERIALIZED (
    SELECT c.subscriber_id, w.global_sequence, w.event_id
    FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bigint[], $5::uuid[])
        AS w (subscriber_id, term, nonce, global_sequence, event_id)
    JOIN {schema}.event_bus_checkpoints c
        ON c.subscriber_id = w.subscriber_id AND c.term = w.term AND c.nonce = w.nonce
            AND c.last_global_sequence <= w.global_sequence
    ORDER BY c.subscriber_id FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE {schema}.event_bus_checkpoints c
SET last_global_sequence = mine.global_sequence, last_event_id = coalesce(mine.event_id, c.last_event_id),
    updated_at = now(),
    settled_to = CASE WHEN c.settled_in = {sequence} THEN greatest(c.settled_to, $6) ELSE $6 END, settled_in = {sequence}
FROM mine WHERE mine.subscriber_id = c.subscriber_id AND $7 = {life}
RETURNING c.subscriber_id

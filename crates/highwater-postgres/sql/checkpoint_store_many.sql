-- Locked in order first, so that two of these cannot wait for each other. Never back: see checkpoint_store_one.
WITH mine AS MATERIALIZED (
    SELECT c.subscriber_id, w.global_sequence, w.event_id
    FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::timestamptz[], $5::bigint[], $6::uuid[])
        AS w (subscriber_id, term, nonce, started, global_sequence, event_id)
    JOIN {schema}.event_bus_checkpoints c
        ON c.subscriber_id = w.subscriber_id AND c.term = w.term AND c.nonce = w.nonce
            AND w.started = pg_postmaster_start_time()
    ORDER BY c.subscriber_id FOR NO KEY UPDATE OF c
)
UPDATE {schema}.event_bus_checkpoints c
SET last_global_sequence = greatest(mine.global_sequence, c.last_global_sequence), updated_at = now(),
    last_event_id = CASE WHEN mine.global_sequence < c.last_global_sequence THEN c.last_event_id
                         ELSE coalesce(mine.event_id, c.last_event_id) END
FROM mine WHERE mine.subscriber_id = c.subscriber_id
RETURNING c.subscriber_id

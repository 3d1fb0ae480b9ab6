-- Both draws are needed: the one in SET happens after the wait for the row, so that later terms are higher ones. The wait
-- is bounded: the leader that holds the row may be frozen. The life is only read here. Its number is drawn in a separate
-- statement before: this one may wait for a replica, and every other reader of a new life waits for the one that draws.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $3, true)),
taken AS (
    INSERT INTO {schema}.event_bus_checkpoints AS c (subscriber_id, last_global_sequence, term, nonce)
    SELECT $1, $2, nextval('{schema_text}.event_bus_terms'), $4 FROM patience
    -- One that is new does not start at an event that is gone.
    WHERE $10::uuid IS NULL OR EXISTS (SELECT FROM {schema}.events e WHERE e.id = $10)
        OR EXISTS (SELECT FROM {schema}.event_bus_checkpoints k WHERE k.subscriber_id = $1)
    ON CONFLICT (subscriber_id) DO UPDATE
    SET term = nextval('{schema_text}.event_bus_terms'), nonce = $4, updated_at = now()
    RETURNING c.subscriber_id, c.last_global_sequence, c.last_event_id, c.updated_at, c.term, c.nonce, c.setup_version,
        c.xmax = 0 AS fresh
),
leader AS (
    INSERT INTO {schema}.event_bus_leaders AS l
        (subscriber_id, instance_id, host, pid, label, term, nonce, session)
    SELECT $1, $5, $6, $7, $8, t.term, t.nonce, $9 FROM taken t
    ON CONFLICT (subscriber_id) DO UPDATE
    SET instance_id = excluded.instance_id, host = excluded.host, pid = excluded.pid, label = excluded.label,
        since = now(), term = excluded.term, nonce = excluded.nonce, session = excluded.session
    WHERE l.term < excluded.term
)
SELECT t.subscriber_id, t.last_global_sequence, t.last_event_id, t.updated_at, t.term, t.nonce, coalesce({life}, 0),
    t.setup_version, t.fresh
FROM taken t

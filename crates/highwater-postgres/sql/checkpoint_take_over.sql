-- Both draws are needed: the one in SET happens after the wait for the row, so that later terms are higher ones. The wait
-- is bounded: whoever holds the row may be frozen.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', $3, true))
INSERT INTO {schema}.event_bus_checkpoints AS c (subscriber_id, last_global_sequence, term, nonce)
SELECT $1, $2, nextval('{schema_text}.event_bus_terms'), $4 FROM patience
ON CONFLICT (subscriber_id) DO UPDATE
SET term = nextval('{schema_text}.event_bus_terms'), nonce = $4, updated_at = now()
RETURNING c.term, c.nonce, c.last_global_sequence, c.xmax = 0, pg_postmaster_start_time()

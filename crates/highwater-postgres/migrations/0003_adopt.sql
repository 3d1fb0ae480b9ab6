-- Before 0003_delivery when there are tables of checkpoints or dead letters already, from before there were terms and states: they
-- are adopted with what they hold.
ALTER TABLE IF EXISTS {schema}.event_bus_checkpoints SET LOGGED;
ALTER TABLE IF EXISTS {schema}.event_bus_dlq SET LOGGED;

ALTER TABLE IF EXISTS {schema}.event_bus_checkpoints
    ADD COLUMN IF NOT EXISTS term bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS nonce uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN settled_to bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_in bigint,
    ADD COLUMN setup_version integer,
    ALTER COLUMN last_event_id DROP NOT NULL,
    ALTER COLUMN updated_at SET DEFAULT now(),
    SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);

ALTER TABLE IF EXISTS {schema}.event_bus_dlq
    ADD COLUMN IF NOT EXISTS stream_id uuid,
    ADD COLUMN IF NOT EXISTS event_type text,
    ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'dead',
    ADD COLUMN IF NOT EXISTS parks boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS resolved_at timestamptz,
    ADD COLUMN IF NOT EXISTS resolved_by text,
    ADD COLUMN IF NOT EXISTS reason text;

DO $highwater$
BEGIN
    IF to_regclass('{schema_text}.event_bus_dlq') IS NULL THEN
        RETURN;
    END IF;
    -- What older dead letters do not say, the log does. One whose event is gone belongs to no stream: it cannot be replayed, but it
    -- can still be seen and discarded.
    UPDATE {schema}.event_bus_dlq d
    SET stream_id = coalesce(d.stream_id, e.stream_id, '00000000-0000-0000-0000-000000000000'),
        event_type = coalesce(d.event_type, e.event_type, '')
    FROM {schema}.event_bus_dlq o LEFT JOIN {schema}.events e ON e.id = o.event_id
    WHERE o.id = d.id AND (d.stream_id IS NULL OR d.event_type IS NULL);

    -- Writing a dead letter again rests on it.
    IF NOT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = '{schema_text}.event_bus_dlq'::regclass AND i.indisunique AND i.indpred IS NULL
            AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
                 WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) = ARRAY['event_id', 'subscriber_id']) THEN
        ALTER TABLE {schema}.event_bus_dlq ADD CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id);
    END IF;
END
$highwater$;

ALTER TABLE IF EXISTS {schema}.event_bus_dlq
    ALTER COLUMN stream_id SET NOT NULL,
    ALTER COLUMN event_type SET NOT NULL,
    ADD CONSTRAINT event_bus_dlq_state_check CHECK (state IN ('dead', 'parked', 'replayed', 'discarded', 'archived'));

-- Delivery: where subscribers have got to, and what they could not take in. Tables of these names that are there already,
-- from before there were terms, are adopted with what they hold.

-- Terms are drawn from here, and not counted up in the rows: a table that was emptied by hand must not bring one back.
CREATE SEQUENCE {schema}.event_bus_terms CACHE 1 NO CYCLE;

CREATE TABLE IF NOT EXISTS {schema}.event_bus_checkpoints (
    subscriber_id varchar(255) PRIMARY KEY,
    last_global_sequence bigint NOT NULL DEFAULT 0,
    last_event_id uuid,
    updated_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE {schema}.event_bus_checkpoints
    ADD COLUMN IF NOT EXISTS term bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS nonce uuid NOT NULL DEFAULT gen_random_uuid(),
    ALTER COLUMN last_event_id DROP NOT NULL,
    ALTER COLUMN updated_at SET DEFAULT now(),
    -- Few rows, written all the time, and no index on what is written: a new version finds room beside the old one, and
    -- the next writer cleans up behind both.
    SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);

-- Apart from the checkpoints, so that whoever pauses a subscriber never waits for its transaction.
CREATE TABLE {schema}.event_bus_pauses (
    subscriber_id varchar(255) PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

-- The payload is not copied: it is in the log.
CREATE TABLE IF NOT EXISTS {schema}.event_bus_dlq (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    subscriber_id varchar(255) NOT NULL,
    event_id uuid NOT NULL,
    global_sequence bigint NOT NULL,
    error_message text,
    retry_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_retry_at timestamptz,
    CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id)
);
ALTER TABLE {schema}.event_bus_dlq
    ADD COLUMN IF NOT EXISTS stream_id uuid,
    ADD COLUMN IF NOT EXISTS event_type text,
    ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'dead',
    ADD COLUMN IF NOT EXISTS parks boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS resolved_at timestamptz,
    ADD COLUMN IF NOT EXISTS resolved_by text,
    ADD COLUMN IF NOT EXISTS reason text;

-- What older letters do not say, the log does. One whose event is gone belongs to no stream: it cannot be replayed, but it
-- can still be seen and discarded.
UPDATE {schema}.event_bus_dlq d
SET stream_id = coalesce(d.stream_id, e.stream_id, '00000000-0000-0000-0000-000000000000'),
    event_type = coalesce(d.event_type, e.event_type, '')
FROM {schema}.event_bus_dlq o LEFT JOIN {schema}.events e ON e.id = o.event_id
WHERE o.id = d.id AND (d.stream_id IS NULL OR d.event_type IS NULL);

ALTER TABLE {schema}.event_bus_dlq
    ALTER COLUMN stream_id SET NOT NULL,
    ALTER COLUMN event_type SET NOT NULL,
    ADD CONSTRAINT event_bus_dlq_state_check CHECK (state IN ('dead', 'parked', 'replayed', 'discarded', 'archived'));

DO $highwater$
BEGIN
    -- Writing a letter again rests on it.
    IF NOT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = '{schema_text}.event_bus_dlq'::regclass AND i.indisunique AND i.indpred IS NULL
            AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
                 WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) = ARRAY['event_id', 'subscriber_id']) THEN
        ALTER TABLE {schema}.event_bus_dlq ADD CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id);
    END IF;
END
$highwater$;

CREATE INDEX IF NOT EXISTS idx_dlq_subscriber ON {schema}.event_bus_dlq (subscriber_id);
CREATE INDEX IF NOT EXISTS idx_dlq_created_at ON {schema}.event_bus_dlq (created_at);
CREATE INDEX event_bus_dlq_open ON {schema}.event_bus_dlq (subscriber_id, stream_id) WHERE state IN ('dead', 'parked');

CREATE TABLE {schema}.event_bus_dlq_attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    letter uuid NOT NULL REFERENCES {schema}.event_bus_dlq ON DELETE CASCADE,
    attempted_at timestamptz NOT NULL DEFAULT now(),
    attempted_by text NOT NULL,
    outcome text NOT NULL,
    detail text
);
CREATE INDEX event_bus_dlq_attempts_letter ON {schema}.event_bus_dlq_attempts (letter);

-- What people ask for. Whoever processes for the subscriber does it.
CREATE TABLE {schema}.event_bus_requests (
    id uuid PRIMARY KEY,
    subscriber_id varchar(255) NOT NULL,
    ask text NOT NULL,
    letter uuid,
    stream_id uuid,
    reason text,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    error text,
    CONSTRAINT event_bus_requests_ask_check CHECK (
        CASE ask
            WHEN 'replay' THEN letter IS NOT NULL
            WHEN 'replay_stream' THEN stream_id IS NOT NULL
            WHEN 'replay_all' THEN true
            WHEN 'discard' THEN letter IS NOT NULL AND reason IS NOT NULL
            WHEN 'rebuild' THEN true
            ELSE false
        END)
);
CREATE INDEX event_bus_requests_open ON {schema}.event_bus_requests (subscriber_id) WHERE finished_at IS NULL;

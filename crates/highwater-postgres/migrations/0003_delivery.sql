-- Delivery: where subscribers are, and what they could not handle. Checkpoints and dead letters may be there already: then
-- 0003_adopt has brought them into this form.

-- Terms are drawn from here, and not counted up in the rows: a table that was emptied by hand must not bring one back.
CREATE SEQUENCE {schema}.event_bus_terms CACHE 1 NO CYCLE;

CREATE TABLE IF NOT EXISTS {schema}.event_bus_checkpoints (
    subscriber_id varchar(255) PRIMARY KEY,
    last_global_sequence bigint NOT NULL DEFAULT 0,
    last_event_id uuid,
    updated_at timestamptz NOT NULL DEFAULT now(),
    term bigint NOT NULL DEFAULT 0,
    nonce uuid NOT NULL DEFAULT gen_random_uuid(),
    -- How far the readers of a subscriber's process have proved the order to be settled: nothing can appear at or below that any
    -- more. A fact about the numbers of one sequence (settled_in), and not about where the subscriber is, which may have been
    -- started anywhere by hand. A new reader begins with the highest of these, whatever transactions are open.
    settled_to bigint NOT NULL DEFAULT 0,
    settled_in bigint,
    -- Which version of a read model's tables a projection has set up, beside the checkpoint that it is committed with; NULL where
    -- none ever was.
    setup_version integer
) WITH (
    -- Few rows, written all the time, and no index on what is written: a new version finds room beside the old one, and
    -- the next writer cleans up behind both.
    fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);

-- Apart from the checkpoints, so that an operator who pauses a subscriber never waits for its transaction.
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
    stream_id uuid NOT NULL,
    event_type text NOT NULL,
    state text NOT NULL DEFAULT 'dead',
    parks boolean NOT NULL DEFAULT false,
    resolved_at timestamptz,
    resolved_by text,
    reason text,
    CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id),
    CONSTRAINT event_bus_dlq_state_check CHECK (state IN ('dead', 'parked', 'replayed', 'discarded', 'archived'))
);
CREATE INDEX IF NOT EXISTS idx_dlq_subscriber ON {schema}.event_bus_dlq (subscriber_id);
CREATE INDEX IF NOT EXISTS idx_dlq_created_at ON {schema}.event_bus_dlq (created_at);
CREATE INDEX event_bus_dlq_open ON {schema}.event_bus_dlq (subscriber_id, stream_id) WHERE state IN ('dead', 'parked');

CREATE TABLE {schema}.event_bus_dlq_attempts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dead_letter_id uuid NOT NULL REFERENCES {schema}.event_bus_dlq ON DELETE CASCADE,
    attempted_at timestamptz NOT NULL DEFAULT now(),
    attempted_by text NOT NULL,
    outcome text NOT NULL,
    detail text
);
CREATE INDEX event_bus_dlq_attempts_dead_letter ON {schema}.event_bus_dlq_attempts (dead_letter_id);

-- What operators ask for. The subscriber's leader does it.
CREATE TABLE {schema}.event_bus_requests (
    id uuid PRIMARY KEY,
    subscriber_id varchar(255) NOT NULL,
    kind text NOT NULL,
    dead_letter_id uuid,
    stream_id uuid,
    reason text,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    error text,
    CONSTRAINT event_bus_requests_kind_check CHECK (
        CASE kind
            WHEN 'replay' THEN dead_letter_id IS NOT NULL
            WHEN 'replay_stream' THEN stream_id IS NOT NULL
            WHEN 'replay_all' THEN true
            WHEN 'discard' THEN dead_letter_id IS NOT NULL AND reason IS NOT NULL
            WHEN 'rebuild' THEN true
            WHEN 'reread' THEN true
            ELSE false
        END),
    -- Every instance reads them, again and again.
    CONSTRAINT event_bus_requests_sane CHECK (
        done >= 0 AND failed >= 0 AND octet_length(requested_by) <= 8192
        AND octet_length(coalesce(reason, '')) <= 8192 AND octet_length(coalesce(error, '')) <= 16384
        AND requested_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange)
);
CREATE INDEX event_bus_requests_open ON {schema}.event_bus_requests (subscriber_id) WHERE finished_at IS NULL;

-- Delivery: where subscribers are, what they could not handle, and what operators ask for. The names are the same as
-- on PostgreSQL.
CREATE TABLE event_bus_checkpoints (
    subscriber_id TEXT PRIMARY KEY,
    last_global_sequence INTEGER NOT NULL DEFAULT 0,
    last_event_id BLOB,
    updated_at INTEGER NOT NULL,
    term INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    -- The open transaction that has locked this row, by a random number; its last statement removes it. So that
    -- statement does nothing when what a handler did has ended the transaction before.
    opened INTEGER,
    -- Which version of a read model's tables a projection has set up, beside the checkpoint that it is committed with; NULL where
    -- none ever was.
    setup_version INTEGER
) STRICT, WITHOUT ROWID;

-- One row: the highest term that was ever given. Apart from the checkpoints, so that deleting one brings none back.
CREATE TABLE event_bus_terms (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO event_bus_terms VALUES (1, 0);

CREATE TABLE event_bus_pauses (
    subscriber_id TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The payload is not copied: it is in the log.
CREATE TABLE event_bus_dlq (
    id BLOB PRIMARY KEY,
    subscriber_id TEXT NOT NULL,
    event_id BLOB NOT NULL,
    global_sequence INTEGER NOT NULL,
    stream_id BLOB NOT NULL,
    event_type TEXT NOT NULL,
    error_message TEXT,
    retry_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    last_retry_at INTEGER,
    state TEXT NOT NULL DEFAULT 'dead' CHECK (state IN ('dead', 'parked', 'replayed', 'discarded', 'archived')),
    parks INTEGER NOT NULL DEFAULT 0,
    resolved_at INTEGER,
    resolved_by TEXT,
    reason TEXT,
    CONSTRAINT unique_subscriber_event UNIQUE (subscriber_id, event_id)
) STRICT;
CREATE INDEX event_bus_dlq_order ON event_bus_dlq (global_sequence, id);
CREATE INDEX event_bus_dlq_open ON event_bus_dlq (subscriber_id, stream_id) WHERE state IN ('dead', 'parked');

CREATE TABLE event_bus_dlq_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dead_letter_id BLOB NOT NULL REFERENCES event_bus_dlq (id) ON DELETE CASCADE,
    attempted_at INTEGER NOT NULL,
    attempted_by TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT
) STRICT;
CREATE INDEX event_bus_dlq_attempts_dead_letter ON event_bus_dlq_attempts (dead_letter_id);

CREATE TABLE event_bus_requests (
    id BLOB PRIMARY KEY,
    subscriber_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    dead_letter_id BLOB,
    stream_id BLOB,
    reason TEXT,
    requested_by TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    finished_at INTEGER,
    done INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    CONSTRAINT event_bus_requests_kind_check CHECK (
        CASE kind
            WHEN 'replay' THEN dead_letter_id IS NOT NULL
            WHEN 'replay_stream' THEN stream_id IS NOT NULL
            WHEN 'replay_all' THEN 1
            WHEN 'discard' THEN dead_letter_id IS NOT NULL AND reason IS NOT NULL
            WHEN 'rebuild' THEN 1
            WHEN 'reread' THEN 1
            ELSE 0
        END),
    -- Every instance reads them, again and again. Times are those of the years 1 to 9999.
    CONSTRAINT event_bus_requests_sane CHECK (
        done >= 0 AND failed >= 0 AND length(CAST(requested_by AS BLOB)) <= 8192
        AND length(CAST(coalesce(reason, '') AS BLOB)) <= 8192 AND length(CAST(coalesce(error, '') AS BLOB)) <= 16384
        AND length(id) = 16 AND coalesce(length(dead_letter_id), 16) = 16 AND coalesce(length(stream_id), 16) = 16
        AND requested_at BETWEEN -62135596800000000 AND 253402300799999999)
) STRICT;
CREATE INDEX event_bus_requests_open ON event_bus_requests (subscriber_id, requested_at, id) WHERE finished_at IS NULL;

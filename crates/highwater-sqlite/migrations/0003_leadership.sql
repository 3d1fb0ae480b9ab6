-- Leadership: which instances there are, and which of them leads a subscriber. What is written here informs; whether an instance
-- still leads, or is still there, is told by the locks on the files beside the database.
CREATE TABLE event_bus_leaders (
    subscriber_id TEXT PRIMARY KEY,
    instance_id BLOB NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    label TEXT,
    since INTEGER NOT NULL,
    term INTEGER NOT NULL,
    -- As the checkpoint has it: who took over without writing itself down here is not taken for another.
    nonce BLOB NOT NULL,
    -- The session that the lock was held on; none where there was no lock.
    session BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE event_bus_instances (
    session BLOB PRIMARY KEY,
    instance_id BLOB NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    label TEXT,
    -- A JSON array of pairs: the subscriber, and what it prefers.
    wants TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What leaders say of themselves, one row a subscriber, for observers outside. It informs and decides nothing: it is
-- believed while its term is the checkpoint's, and its leader still leads.
CREATE TABLE event_bus_reports (
    subscriber_id TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    state TEXT NOT NULL,
    -- Up to where everything has been handled.
    global_sequence INTEGER NOT NULL,
    rate REAL NOT NULL,
    -- Of an event that is being retried.
    failing INTEGER,
    failures INTEGER,
    next_at INTEGER,
    -- Why it is halted.
    reason TEXT,
    last_error TEXT,
    push_degraded TEXT,
    -- Which events it reads.
    reads TEXT,
    reported_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

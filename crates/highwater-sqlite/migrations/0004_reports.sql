-- What leaders say of themselves, one row a subscriber, for whoever looks from outside. It informs and decides nothing: it is
-- believed while its term is the checkpoint's, and its leader still leads.
CREATE TABLE event_bus_reports (
    subscriber_id TEXT PRIMARY KEY,
    term INTEGER NOT NULL,
    state TEXT NOT NULL,
    -- Up to where everything has been handled.
    global_sequence INTEGER NOT NULL,
    rate REAL NOT NULL,
    -- Of an event that is being tried again.
    failing INTEGER,
    failures INTEGER,
    next_at INTEGER,
    -- Why it is halted.
    reason TEXT,
    last_error TEXT,
    push_degraded TEXT,
    reported_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What transactional subscribers make of events, and triggers that write down how checkpoints move.
CREATE TABLE chaos_rows (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    subscriber_id TEXT NOT NULL,
    global_sequence INTEGER NOT NULL,
    term INTEGER NOT NULL,
    written_by TEXT NOT NULL
);
CREATE INDEX chaos_rows_subscriber ON chaos_rows (subscriber_id);

CREATE TABLE chaos_tallies (
    subscriber_id TEXT NOT NULL,
    stream_id TEXT NOT NULL,
    events INTEGER NOT NULL,
    versions INTEGER NOT NULL,
    last_version INTEGER NOT NULL,
    PRIMARY KEY (subscriber_id, stream_id)
);

CREATE TABLE chaos_audit (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    subscriber_id TEXT NOT NULL,
    term INTEGER NOT NULL,
    global_sequence INTEGER NOT NULL,
    written_by TEXT NOT NULL
);

CREATE TRIGGER chaos_audit_insert AFTER INSERT ON event_bus_checkpoints BEGIN
    INSERT INTO chaos_audit (subscriber_id, term, global_sequence, written_by)
    VALUES (NEW.subscriber_id, NEW.term, NEW.last_global_sequence, '');
END;

CREATE TRIGGER chaos_audit_update AFTER UPDATE OF term, last_global_sequence ON event_bus_checkpoints BEGIN
    INSERT INTO chaos_audit (subscriber_id, term, global_sequence, written_by)
    VALUES (NEW.subscriber_id, NEW.term, NEW.last_global_sequence, '');
END;

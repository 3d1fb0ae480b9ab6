-- What leaders say of themselves, one row a subscriber, for whoever looks from outside. It informs and decides nothing: it is
-- believed while its term is the checkpoint's, and its leader still leads.
CREATE TABLE {schema}.event_bus_reports (
    subscriber_id varchar(255) PRIMARY KEY,
    term bigint NOT NULL,
    state text NOT NULL,
    -- Up to where everything has been handled.
    global_sequence bigint NOT NULL,
    rate double precision NOT NULL,
    -- Of an event that is being tried again.
    failing bigint,
    failures bigint,
    next_at timestamptz,
    -- Why it is halted.
    reason text,
    last_error text,
    push_degraded text,
    reported_at timestamptz NOT NULL
);

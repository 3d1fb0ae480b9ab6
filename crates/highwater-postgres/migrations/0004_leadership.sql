-- Leadership: which instances there are, and which of them leads a subscriber. What is written here informs; whether an instance
-- still leads, or is still there, is told by the locks that its session holds.

CREATE TABLE {schema}.event_bus_leaders (
    subscriber_id varchar(255) PRIMARY KEY,
    instance_id uuid NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    label text,
    since timestamptz NOT NULL DEFAULT now(),
    term bigint NOT NULL,
    -- As the checkpoint has it: who took over without writing itself down here is not taken for another.
    nonce uuid NOT NULL,
    -- The session that the lock was held on; none where there was no lock.
    session uuid,
    -- Every instance reads them, again and again.
    CONSTRAINT event_bus_leaders_sane CHECK (
        octet_length(host) <= 8192 AND octet_length(coalesce(label, '')) <= 8192
        AND since <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange)
);

CREATE TABLE {schema}.event_bus_instances (
    session uuid PRIMARY KEY,
    instance_id uuid NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    label text,
    wants text[] NOT NULL,
    prefers text[] NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    -- Likewise. Four thousand subscribers with the longest names have room.
    CONSTRAINT event_bus_instances_sane CHECK (
        octet_length(host) <= 8192 AND octet_length(coalesce(label, '')) <= 8192
        AND octet_length(wants::text) <= 1048576 AND octet_length(prefers::text) <= 1048576
        AND since <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange)
);

-- Waits for an instance's own lock, and gives it back at once: who gets it knows that the instance is gone. For a while only,
-- and without an error when it is not: a statement that waits holds back vacuum for as long as it does.
CREATE FUNCTION {schema}.session_is_gone(high integer, low integer, patience integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $highwater$
BEGIN
    PERFORM set_config('lock_timeout', patience::text, true);
    PERFORM pg_advisory_lock(high, low);
    PERFORM pg_advisory_unlock(high, low);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$highwater$;

-- What leaders say of themselves, one row a subscriber, for observers outside. It informs and decides nothing: it is
-- believed while its term is the checkpoint's, and its leader still leads.
CREATE TABLE {schema}.event_bus_reports (
    subscriber_id varchar(255) PRIMARY KEY,
    term bigint NOT NULL,
    state text NOT NULL,
    -- Up to where everything has been handled.
    global_sequence bigint NOT NULL,
    rate double precision NOT NULL,
    -- Of an event that is being retried.
    failing bigint,
    failures bigint,
    next_at timestamptz,
    -- Why it is halted.
    reason text,
    last_error text,
    push_degraded text,
    -- Which events it reads.
    reads text,
    reported_at timestamptz NOT NULL,
    -- Observers read them, again and again. Leaders cut errors to a half of this.
    CONSTRAINT event_bus_reports_sane CHECK (
        octet_length(state) <= 16384 AND octet_length(coalesce(reason, '')) <= 16384
        AND octet_length(coalesce(last_error, '')) <= 16384 AND octet_length(coalesce(push_degraded, '')) <= 16384
        AND octet_length(coalesce(reads, '')) <= 1048576)
);

-- Which life of the server this is. A server that recovers, because its machine or one of its processes died, or because it
-- was promoted, may have lost what was committed without waiting for the disk, and may give out numbers again. PostgreSQL
-- empties unlogged tables in every recovery and in no other case, so the row in this one never outlives what may be lost.
-- `pg_postmaster_start_time()` alone would not do: it stays when a single process is killed and the server recovers.
CREATE UNLOGGED TABLE {schema}.server_life (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

-- The number of this life, drawn by the first who asks. It also changes when the server is restarted, when the sequence is
-- restarted or made anew, and when the database is replaced by a copy: numbers from before mean nothing then.
CREATE FUNCTION {schema}.life() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
AS $highwater$
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.server_life) THEN
        -- Two may be first at once: then one of them waits for the other, which may never end.
        BEGIN
            INSERT INTO {schema}.server_life (number)
            VALUES (('x' || encode(substring(uuid_send(gen_random_uuid()) FROM 9), 'hex'))::bit(64)::bigint)
            ON CONFLICT DO NOTHING;
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION USING ERRCODE = 'HW009',
                MESSAGE = format('a transaction that is still open has begun to number this life of the server: %s', (
                    -- Not those that wait for it as well.
                    SELECT string_agg(coalesce('pid ' || l.pid, 'a prepared one'), ', ') FROM pg_locks l
                    WHERE l.relation = '{schema_text}.server_life'::regclass AND l.mode = 'RowExclusiveLock'
                        AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
                        AND NOT EXISTS (SELECT FROM pg_locks w WHERE w.pid = l.pid AND NOT w.granted))),
                HINT = 'Commit it, or end its session with pg_terminate_backend.';
        END;
    END IF;
    RETURN {life};
END
$highwater$;

-- For a statement that must not run in another life, or on a replica: an error instead of an answer.
CREATE FUNCTION {schema}.insist_on_life(expected bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $highwater$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'HW006', MESSAGE = 'the server is a replica, in recovery',
            HINT = 'Connect to the primary, without a balancer in between.';
    END IF;
    IF {life} IS DISTINCT FROM expected THEN
        RAISE EXCEPTION USING ERRCODE = 'HW005', MESSAGE = 'the server was restarted, recovered or replaced meanwhile',
            HINT = 'Begin again from what is stored.';
    END IF;
    RETURN true;
END
$highwater$;

-- How far the order is proved to be settled, beside what checkpoints say: a store may be read without any subscriber. Logged: what
-- it was proved by comes before it in the write-ahead log, so that no recovery keeps it alone.
CREATE TABLE {schema}.settled (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    settled_to bigint NOT NULL DEFAULT 0,
    -- The sequence that it is about.
    settled_in bigint,
    -- Where the sequence stood once, which transactions held its lock after that, and the life in which.
    seen_to bigint,
    seen_open text[],
    seen_in bigint
);
INSERT INTO {schema}.settled DEFAULT VALUES;

-- Proves it and stores it; NULL where another session is at it. A transaction that takes the sequence's lock after the sequence
-- was seen at a number only draws higher ones. So once those that were open then have ended, everything up to there is settled.
-- Believes no caller, and each statement sees what was committed before it.
CREATE FUNCTION {schema}.settle() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $highwater$
DECLARE
    known {schema}.settled;
    drawn bigint;
    life bigint;
    holders text[];
    proved bigint;
BEGIN
    SELECT * INTO known FROM {schema}.settled FOR UPDATE SKIP LOCKED;
    SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END, {life} INTO drawn, life
    FROM {schema}.events_global_sequence_seq q;
    IF known IS NULL OR life IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(array_agg(l.virtualtransaction), '{}') INTO holders FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.relation = '{schema_text}.events_global_sequence_seq'::regclass;
    IF holders = '{}' THEN
        proved := drawn;
    ELSIF known.seen_in = life AND known.seen_open && holders THEN
        -- Some are still open.
        RETURN CASE WHEN known.settled_in = {sequence} THEN known.settled_to ELSE 0 END;
    ELSIF known.seen_in = life THEN
        proved := known.seen_to;
    END IF;
    SELECT coalesce(max(e.global_sequence), 0) INTO proved FROM {schema}.events e WHERE e.global_sequence <= proved;
    UPDATE {schema}.settled s
    SET settled_to = CASE WHEN s.settled_in = {sequence} THEN greatest(s.settled_to, proved) ELSE proved END,
        settled_in = {sequence}, seen_to = drawn, seen_open = holders, seen_in = life
    WHERE life = {life}
    RETURNING s.settled_to INTO proved;
    RETURN proved;
END
$highwater$;

-- They are numbers that prove themselves, and everybody who may use the schema has to see them; also roles that were granted their rights
-- before it was there.
GRANT SELECT ON {schema}.server_life, {schema}.settled TO PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.life, {schema}.insist_on_life, {schema}.settle TO PUBLIC;

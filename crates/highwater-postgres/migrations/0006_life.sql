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
                    SELECT string_agg(coalesce('pid ' || l.pid, 'a prepared one'), ', ') FROM pg_locks l
                    WHERE l.relation = '{schema_text}.server_life'::regclass AND l.mode = 'RowExclusiveLock'
                        AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid())),
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

-- It is a random number, and everybody who may use the schema has to see it; also roles that were granted their rights
-- before it was there.
GRANT SELECT ON {schema}.server_life TO PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.life, {schema}.insist_on_life TO PUBLIC;

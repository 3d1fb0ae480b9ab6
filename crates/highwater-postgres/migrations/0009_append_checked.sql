-- Appending, checked. What is stored is compared with what was sent, because a trigger or a rule on the table may drop or
-- change rows without a word; and versions are checked, so that no caller of these functions can make a hole in a stream.
-- Either raises an error, and nothing is stored. Signatures, owners and grants stay.

-- The years that the library stores; no reader could represent "infinity". One comparison, because PostgreSQL makes each
-- constraint's expression anew for every INSERT. Not validated here, so that a large table is not locked while it is read:
-- initialize() does that afterwards, beside the writers.
ALTER TABLE {schema}.events
    ADD CONSTRAINT events_created_at_sane
        CHECK (created_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange) NOT VALID;

-- Two checks, which the functions below call only where there is something to see: a call costs a lone append more than the
-- check itself. So `append_one`, whose version is always the next, has the second one in its RETURNING.

-- In each stream 1, 2, 3 … : the unique index keeps doubles out, so that the highest is as many as there are. Everything is
-- named in full, because `append_new` sets no search_path.
CREATE FUNCTION {schema}.insist_on_versions(stream_ids uuid[], versions bigint[])
RETURNS void
LANGUAGE plpgsql
AS $highwater$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT pg_catalog.unnest(stream_ids) AS stream_id, pg_catalog.unnest(versions) AS version) e
        GROUP BY e.stream_id
        HAVING (pg_catalog.max(e.version) OPERATOR(pg_catalog.=) pg_catalog.count(*)) IS NOT TRUE) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW008',
            MESSAGE = 'the versions of each stream''s events must be 1, 2, 3 … without holes or doubles';
    END IF;
END
$highwater$;

-- Reads back what was just stored, where the table has triggers or rules.
CREATE FUNCTION {schema}.insist_on_rows(
    numbers bigint[], stream_ids uuid[], stream_versions bigint[], ids uuid[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $highwater$
DECLARE
    sent bigint := cardinality(ids);
    stored bigint;
BEGIN
    SELECT count(*) INTO stored
    FROM unnest(numbers, stream_ids, stream_versions, ids) AS s (number, stream_id, stream_version, id)
    JOIN {schema}.events e ON e.global_sequence = s.number
    WHERE (e.stream_id, e.stream_version, e.id) = (s.stream_id, s.stream_version, s.id);
    IF stored <> sent THEN
        RAISE EXCEPTION USING ERRCODE = 'HW007',
            MESSAGE = format('of %s events that were sent, %s would be stored as they were sent', sent, stored),
            HINT = 'A trigger or a rule on the table of events drops or changes rows. Remove it.';
    END IF;
END
$highwater$;

-- They only read, with the rights of their caller; and the owner of the functions below must be allowed to call them, also when
-- another role migrates.
GRANT EXECUTE ON FUNCTION {schema}.insist_on_versions, {schema}.insist_on_rows TO PUBLIC;

-- As before, but for the check of the versions and what follows the INSERT.
CREATE OR REPLACE FUNCTION {schema}.append_group(
    streams uuid[], expected bigint[], wait_ms integer, event_streams integer[], steps integer[], ids uuid[],
    event_types text[], schema_versions integer[], data text[], metadata text[], created_at timestamptz[],
    OUT heads bigint[], OUT held uuid[], OUT sequences bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
AS $highwater$
DECLARE
    conflict boolean;
    existing uuid[];
    locked uuid[];
    stored bigint;
    lock_timeout text := current_setting('lock_timeout');
BEGIN
    -- Arrays of another shape would be subscripted in another way than they are read.
    IF array_lower(streams, 1) <> 1 OR array_ndims(streams) <> 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW008', MESSAGE = 'streams must be an array of one dimension that begins at 1';
    END IF;
    -- Where every stream gets one event there is nothing to see.
    IF (1 = ALL (steps)) IS NOT TRUE THEN
        PERFORM {schema}.insist_on_versions(ARRAY(SELECT streams[s] FROM unnest(event_streams) s), steps);
    END IF;
    LOOP
        -- Each time in a statement of its own, so that it sees what was committed while we waited for locks.
        SELECT array_agg(h.head ORDER BY h.n),
            array_agg(h.id) FILTER (WHERE h.head > 0 AND coalesce(h.want, -1) = -1),
            bool_or(CASE h.want WHEN -1 THEN h.head = 0 ELSE h.head <> h.want END)
        INTO heads, existing, conflict
        FROM (
            SELECT s.id, s.want, s.n,
                coalesce((SELECT max(e.stream_version) FROM {schema}.events e WHERE e.stream_id = s.id), 0) AS head
            FROM unnest(streams, expected) WITH ORDINALITY AS s (id, want, n)
        ) h;
        IF conflict THEN
            RETURN;
        END IF;
        EXIT WHEN existing IS NULL OR locked IS NOT NULL;
        IF wait_ms IS NULL THEN
            SELECT array_agg(l.stream_id) INTO locked FROM (
                SELECT e.stream_id FROM {schema}.events e
                WHERE e.stream_id = ANY (existing) AND e.stream_version = 1
                ORDER BY e.stream_id FOR NO KEY UPDATE SKIP LOCKED
            ) l;
            IF coalesce(cardinality(locked), 0) < cardinality(existing) THEN
                held := ARRAY(SELECT unnest(existing) EXCEPT SELECT unnest(locked));
                RETURN;
            END IF;
        ELSE
            PERFORM set_config('lock_timeout', wait_ms::text, true);
            PERFORM FROM {schema}.events e
            WHERE e.stream_id = ANY (existing) AND e.stream_version = 1
            ORDER BY e.stream_id FOR NO KEY UPDATE;
            locked := existing;
        END IF;
    END LOOP;
    IF wait_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', wait_ms::text, true);
    END IF;
    -- Drawn first: so they ascend in the order of the events, and are known without RETURNING.
    sequences := ARRAY(
        SELECT nextval('{schema_text}.events_global_sequence_seq'::regclass) FROM generate_subscripts(ids, 1));
    INSERT INTO {schema}.events
        (global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT e.number, e.id, streams[e.stream], heads[e.stream] + e.step, e.event_type, e.schema_version, e.data::json,
        e.metadata::json, e.created_at
    FROM unnest(sequences, ids, event_streams, steps, event_types, schema_versions, data, metadata, created_at)
        AS e (number, id, stream, step, event_type, schema_version, data, metadata, created_at);
    GET DIAGNOSTICS stored = ROW_COUNT;
    -- Without triggers and rules the number of rows says it all. Asked after the INSERT, whose lock keeps new ones out.
    IF stored <> cardinality(ids) OR EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = '{schema_text}.events'::regclass AND (c.relhastriggers OR c.relhasrules)) THEN
        PERFORM {schema}.insist_on_rows(sequences,
            ARRAY(SELECT streams[s] FROM unnest(event_streams) WITH ORDINALITY AS e (s, n) ORDER BY n),
            ARRAY(SELECT heads[s] + step FROM unnest(event_streams, steps) WITH ORDINALITY AS e (s, step, n) ORDER BY n),
            ids);
    END IF;
    IF wait_ms IS NOT NULL THEN
        -- The rest of the transaction is the caller's.
        PERFORM set_config('lock_timeout', lock_timeout, true);
    END IF;
END
$highwater$;

-- As before, but that its one row comes back as it was sent or not at all.
CREATE OR REPLACE FUNCTION {schema}.append_one(
    stream uuid, expected bigint, event_id uuid, type text, version integer, content text, meta text, made timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    head bigint := 0;
    drawn bigint;
    number bigint;
BEGIN
    -- Whether a stream that must not exist really does not, the unique index will tell.
    IF expected IS NULL OR expected OPERATOR(pg_catalog.<>) 0 THEN
        SELECT coalesce(pg_catalog.max(e.stream_version), 0) INTO head FROM {schema}.events e
        WHERE e.stream_id OPERATOR(pg_catalog.=) stream;
        -- Also with an expectation that is none.
        IF expected OPERATOR(pg_catalog.<>) -1 AND head OPERATOR(pg_catalog.<>) expected
            OR expected OPERATOR(pg_catalog.=) -1 AND head OPERATOR(pg_catalog.=) 0 THEN
            RETURN ARRAY[head];
        END IF;
        IF head OPERATOR(pg_catalog.>) 0 AND (expected IS NULL OR expected OPERATOR(pg_catalog.=) -1) THEN
            PERFORM FROM {schema}.events e
            WHERE e.stream_id OPERATOR(pg_catalog.=) stream AND e.stream_version OPERATOR(pg_catalog.=) 1
            FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN NULL;
            END IF;
            -- A statement of its own, so that it sees what was committed before the lock was ours.
            SELECT pg_catalog.max(e.stream_version) INTO head FROM {schema}.events e
            WHERE e.stream_id OPERATOR(pg_catalog.=) stream;
        END IF;
    END IF;
    drawn := pg_catalog.nextval('{schema_text}.events_global_sequence_seq'::pg_catalog.regclass);
    INSERT INTO {schema}.events
        (global_sequence, id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    VALUES (drawn, event_id, stream, head OPERATOR(pg_catalog.+) 1, type, version, content::pg_catalog.json,
        meta::pg_catalog.json, made)
    RETURNING CASE
        WHEN id OPERATOR(pg_catalog.=) event_id AND stream_id OPERATOR(pg_catalog.=) stream
            AND stream_version OPERATOR(pg_catalog.=) (head OPERATOR(pg_catalog.+) 1)
            AND global_sequence OPERATOR(pg_catalog.=) drawn
        THEN global_sequence
    END INTO number;
    IF number IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW007',
            MESSAGE = 'the event that was sent would not be stored as it was sent',
            HINT = 'A trigger or a rule on the table of events drops or changes rows. Remove it.';
    END IF;
    RETURN ARRAY[head, number];
END
$highwater$;

-- As before, but for the check of the versions and what follows the INSERT.
CREATE OR REPLACE FUNCTION {schema}.append_new(
    stream_ids uuid[], stream_versions bigint[], ids uuid[], event_types text[], schema_versions integer[], data json[],
    metadata json[], created_at timestamptz[])
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    numbers bigint[];
    stored bigint;
BEGIN
    -- As in `append_group`. A stream that is there has version 1 already, which the unique index does not allow twice.
    IF (1 OPERATOR(pg_catalog.=) ALL (stream_versions)) IS NOT TRUE THEN
        PERFORM {schema}.insist_on_versions(stream_ids, stream_versions);
    END IF;
    numbers := ARRAY(
        SELECT pg_catalog.nextval('{schema_text}.events_global_sequence_seq'::pg_catalog.regclass)
        FROM pg_catalog.generate_subscripts(ids, 1));
    INSERT INTO {schema}.events
        (global_sequence, stream_id, stream_version, id, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT pg_catalog.unnest(numbers), pg_catalog.unnest(stream_ids), pg_catalog.unnest(stream_versions),
        pg_catalog.unnest(ids), pg_catalog.unnest(event_types), pg_catalog.unnest(schema_versions),
        pg_catalog.unnest(data), pg_catalog.unnest(metadata), pg_catalog.unnest(created_at);
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored OPERATOR(pg_catalog.<>) pg_catalog.cardinality(ids) OR EXISTS (
        SELECT FROM pg_catalog.pg_class c
        WHERE c.oid OPERATOR(pg_catalog.=) '{schema_text}.events'::pg_catalog.regclass
            AND (c.relhastriggers OR c.relhasrules)) THEN
        PERFORM {schema}.insist_on_rows(numbers, stream_ids, stream_versions, ids);
    END IF;
    RETURN numbers;
END
$highwater$;

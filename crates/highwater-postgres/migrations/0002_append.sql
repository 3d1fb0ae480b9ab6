-- Appending. Three functions, owned by whoever owns the table and run with the owner's rights: roles that may call them
-- need no INSERT. Versions are handed out and numbers drawn here and nowhere else.
--
-- Expectations: NULL any, -1 the stream exists, n its version is n (0: it does not exist).
--
-- A stream that exists is locked by its first event's row before anything is drawn; of two writers that create the same
-- stream, the unique index lets one through. Plans are generic: the same few index look-ups whatever the arguments, and
-- planning them each time would cost more than running them.

-- What the library calls for many callers at once. Either everything is stored and `sequences` holds the numbers in the
-- order of the events; or nothing is, and `heads` (where each stream is) or `held` (streams that another transaction has
-- locked) says why. Waits for held streams only if `wait_ms` is given.
CREATE FUNCTION {schema}.append_group(
    streams uuid[], expected bigint[], wait_ms integer, event_streams integer[], steps integer[], ids uuid[],
    event_types text[], schema_versions integer[], data text[], metadata text[], created_at timestamptz[],
    OUT heads bigint[], OUT held uuid[], OUT sequences bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
AS $highwater$
DECLARE
    conflict boolean;
    existing uuid[];
    locked uuid[];
    lock_timeout text := current_setting('lock_timeout');
BEGIN
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
    WITH inserted AS (
        INSERT INTO {schema}.events
            (id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at)
        SELECT e.id, streams[e.stream], heads[e.stream] + e.step, e.event_type, e.schema_version, e.data::json,
            e.metadata::json, e.created_at
        FROM unnest(ids, event_streams, steps, event_types, schema_versions, data, metadata, created_at)
            AS e (id, stream, step, event_type, schema_version, data, metadata, created_at)
        RETURNING global_sequence
    )
    -- One scan of the arguments, nothing joined: rows are inserted, numbers drawn and numbers collected in the order of
    -- the events.
    SELECT array_agg(i.global_sequence) INTO sequences FROM inserted i;
    IF wait_ms IS NOT NULL THEN
        -- The rest of the transaction is the caller's.
        PERFORM set_config('lock_timeout', lock_timeout, true);
    END IF;
END
$highwater$;

-- The same for the commonest case, one event to one stream, in as few steps as possible: a lone caller feels each. Returns
-- {head, number} when it is stored, {head} on a conflict, NULL when the stream is held.
--
-- Operators are written out because this function has its owner's rights and sets no search_path: setting one would take
-- a tenth of the time of the whole append.
CREATE FUNCTION {schema}.append_one(
    stream uuid, expected bigint, event_id uuid, type text, version integer, content text, meta text, made timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    head bigint := 0;
    number bigint;
BEGIN
    -- Whether a stream that must not exist really does not, the unique index will tell.
    IF expected IS NULL OR expected OPERATOR(pg_catalog.<>) 0 THEN
        SELECT coalesce(pg_catalog.max(e.stream_version), 0) INTO head FROM {schema}.events e
        WHERE e.stream_id OPERATOR(pg_catalog.=) stream;
        IF expected OPERATOR(pg_catalog.>) 0 AND head OPERATOR(pg_catalog.<>) expected
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
    INSERT INTO {schema}.events (id, stream_id, stream_version, event_type, schema_version, data, metadata, created_at)
    VALUES (event_id, stream, head OPERATOR(pg_catalog.+) 1, type, version, content::pg_catalog.json,
        meta::pg_catalog.json, made)
    RETURNING global_sequence INTO number;
    RETURN ARRAY[head, number];
END
$highwater$;

-- For psql and other languages: one event. Waits for a stream that is held, raises HW001 on a conflict and HW003 when the
-- id belongs to another event; an id that is stored already returns the numbers it got then.
CREATE FUNCTION {schema}.append(
    stream_id uuid, event_type text, data json, expected bigint DEFAULT NULL, metadata json DEFAULT '{}',
    id uuid DEFAULT gen_random_uuid(), schema_version integer DEFAULT 1)
RETURNS TABLE (global_sequence bigint, stream_version bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $highwater$
#variable_conflict use_column
DECLARE
    stored {schema}.events;
    done record;
BEGIN
    -- An event that readers have seen must not be taken back by a crash; and while this transaction is open it holds
    -- every reader back, so it must not be forgotten.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF (SELECT s.setting::integer NOT BETWEEN 1 AND 5000 FROM pg_settings s
        WHERE s.name = 'idle_in_transaction_session_timeout') THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '5000', true);
    END IF;
    SELECT e.* INTO stored FROM {schema}.events e WHERE e.id = append.id;
    IF NOT FOUND THEN
        BEGIN
            SELECT g.* INTO done FROM {schema}.append_group(
                ARRAY[append.stream_id], ARRAY[append.expected], 30000, ARRAY[1], ARRAY[1], ARRAY[append.id],
                ARRAY[append.event_type], ARRAY[append.schema_version], ARRAY[append.data::text],
                ARRAY[append.metadata::text], ARRAY[clock_timestamp()]) g;
            IF done.sequences IS NOT NULL THEN
                RETURN QUERY SELECT done.sequences[1], done.heads[1] + 1;
                RETURN;
            END IF;
        EXCEPTION WHEN unique_violation THEN
            -- Somebody was faster: with this very event, or with this version.
        END;
        SELECT e.* INTO stored FROM {schema}.events e WHERE e.id = append.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'HW001',
                MESSAGE = format('conflict: stream %s is at version %s', append.stream_id,
                    (SELECT coalesce(max(e.stream_version), 0) FROM {schema}.events e
                     WHERE e.stream_id = append.stream_id)),
                HINT = 'Read the stream again and decide again.';
        END IF;
    END IF;
    IF (stored.stream_id, stored.event_type, stored.data::text)
        IS DISTINCT FROM (append.stream_id, append.event_type, append.data::text) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003',
            MESSAGE = format('event id %s belongs to another event, in stream %s', append.id, stored.stream_id),
            HINT = 'Use another id.';
    END IF;
    RETURN QUERY SELECT stored.global_sequence, stored.stream_version;
END
$highwater$;

REVOKE ALL ON FUNCTION {schema}.append_group FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.append_one FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.append FROM PUBLIC;

-- Appending. Four functions, owned by the table's owner and run with that role's rights: roles that may call them need no
-- INSERT. Versions are handed out and numbers drawn here and nowhere else. What is stored is compared with what was sent, because
-- a trigger or a rule on the table may drop or change rows without a word; and versions are checked, so that no caller can make a
-- hole in a stream. Either raises an error, and nothing is stored.
--
-- Expectations: NULL any, -1 the stream exists, n its version is n (0: it does not exist).
--
-- A stream that exists is locked by its first event's row before its version is read and anything is drawn; of two writers that create the same
-- stream, the unique index lets one through. The row of a stream's last event tells the name as well as the version: it has to be
-- visited mostly anyway, to see whether it is committed. Plans are generic: the same few index look-ups whatever the arguments, and
-- planning them each time would cost more than running them.

-- What the library calls a name. Its body is looked up once, here, whatever the caller's search path.
CREATE FUNCTION {schema}.is_stream_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN octet_length(name) <= 127
    AND name ~ E'^[^/\\u0001-\\u001f\\u007f-\\u009f]+/[^\\u0001-\\u001f\\u007f-\\u009f]+$';

-- Three checks, which the functions below call only where there is something to see: a call costs a lone append more than the
-- check itself. Everything is named in full, because not all of the callers set a search_path.

CREATE FUNCTION {schema}.insist_on_names(names text[]) RETURNS void
LANGUAGE plpgsql
AS $highwater$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.unnest(names) AS n WHERE NOT {schema}.is_stream_name(n)) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW008',
            MESSAGE = 'the name of a stream is its kind, a slash and its key, in up to 127 bytes without control characters';
    END IF;
END
$highwater$;

-- In each stream 1, 2, 3 … in the order in which numbers will be drawn, and the same name for all of them, or none.
CREATE FUNCTION {schema}.insist_on_versions(stream_ids uuid[], versions bigint[], names text[])
RETURNS void
LANGUAGE plpgsql
AS $highwater$
BEGIN
    -- Mostly each version follows the one before it or begins a stream, which is seen without sorting.
    IF EXISTS (
        SELECT FROM (
            SELECT pg_catalog.unnest(stream_ids) AS stream_id, pg_catalog.unnest(versions) AS version,
                pg_catalog.unnest(pg_catalog.array_prepend(NULL, stream_ids)) AS stream_before,
                pg_catalog.unnest(pg_catalog.array_prepend(NULL, versions)) AS version_before) e
        WHERE e.version OPERATOR(pg_catalog.<>) CASE
            WHEN e.stream_id OPERATOR(pg_catalog.=) e.stream_before THEN e.version_before OPERATOR(pg_catalog.+) 1
            ELSE 1 END) AND EXISTS (
        SELECT FROM (
            SELECT v.version, pg_catalog.row_number() OVER (PARTITION BY v.stream_id ORDER BY v.n) AS wanted
            FROM (
                SELECT pg_catalog.unnest(stream_ids) AS stream_id, pg_catalog.unnest(versions) AS version,
                    pg_catalog.generate_subscripts(stream_ids, 1) AS n) v) e
        WHERE e.version OPERATOR(pg_catalog.<>) e.wanted) OR names IS NOT NULL AND EXISTS (
        SELECT FROM (
            SELECT pg_catalog.unnest(stream_ids) AS stream_id, pg_catalog.unnest(names) COLLATE pg_catalog."C" AS name) e
        GROUP BY e.stream_id
        HAVING pg_catalog.min(e.name) OPERATOR(pg_catalog.<>) pg_catalog.max(e.name)
            OR pg_catalog.count(e.name) OPERATOR(pg_catalog.<>) 0
                AND pg_catalog.count(e.name) OPERATOR(pg_catalog.<>) pg_catalog.count(*)) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW008',
            MESSAGE = 'each stream''s events must have versions 1, 2, 3 … in this order, and one name or none';
    END IF;
END
$highwater$;

-- Reads back what was just stored, where the table has triggers or rules: also those that run after the rows are stored. Metadata
-- and times are not compared: a trigger may add to them.
CREATE FUNCTION {schema}.insist_on_rows(
    numbers bigint[], stream_ids uuid[], stream_versions bigint[], stream_names text[], ids uuid[], event_types text[],
    schema_versions integer[], data text[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $highwater$
DECLARE
    sent bigint := cardinality(ids);
    stored bigint;
BEGIN
    SELECT count(*) INTO stored
    FROM unnest(numbers, stream_ids, stream_versions, stream_names, ids, event_types, schema_versions, data)
        AS s (number, stream_id, stream_version, stream_name, id, event_type, schema_version, data)
    JOIN {schema}.events e ON e.global_sequence = s.number
    WHERE (e.stream_id, e.stream_version, e.id, e.event_type, e.schema_version, e.data::text)
        = (s.stream_id, s.stream_version, s.id, s.event_type, s.schema_version, s.data)
        AND e.stream_name IS NOT DISTINCT FROM s.stream_name;
    IF stored <> sent THEN
        RAISE EXCEPTION USING ERRCODE = 'HW007',
            MESSAGE = format('of %s events that were sent, %s would be stored as they were sent', sent, stored),
            HINT = 'A trigger or a rule on the table of events drops or changes rows. Remove it.';
    END IF;
END
$highwater$;

-- They only read, with the rights of their caller; and the owner of the functions below must be allowed to call them, also when
-- another role migrates.
GRANT EXECUTE ON FUNCTION {schema}.is_stream_name, {schema}.insist_on_names, {schema}.insist_on_versions,
    {schema}.insist_on_rows TO PUBLIC;

-- What the library calls for many callers at once. Either everything is stored and `sequences` holds the numbers in the
-- order of the events; or nothing is, and `heads` (where each stream is) or `held` (streams that another transaction has
-- locked) says why. Waits for held streams only if `wait_ms` is given.
CREATE FUNCTION {schema}.append_group(
    streams uuid[], expected bigint[], wait_ms integer, event_streams integer[], steps integer[], ids uuid[],
    event_types text[], schema_versions integer[], data text[], metadata text[], created_at timestamptz[],
    stream_names text[] DEFAULT NULL,
    OUT heads bigint[], OUT held uuid[], OUT sequences bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
AS $highwater$
DECLARE
    conflict boolean;
    unpinned uuid[];
    existing uuid[];
    names text[];
    locked uuid[];
    again boolean := false;
    stored bigint;
    lock_timeout text := current_setting('lock_timeout');
BEGIN
    -- Arrays of another shape would be subscripted in another way than they are read.
    IF array_lower(streams, 1) <> 1 OR array_ndims(streams) <> 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'HW008', MESSAGE = 'streams must be an array of one dimension that begins at 1';
    END IF;
    -- Where every stream gets one event there is nothing to see: the unique index keeps out a stream that is there twice.
    IF (1 = ALL (steps)) IS NOT TRUE THEN
        IF (SELECT count(DISTINCT s) <> count(*) FROM unnest(streams) s) THEN
            RAISE EXCEPTION USING ERRCODE = 'HW008', MESSAGE = 'streams must hold each stream once';
        END IF;
        PERFORM {schema}.insist_on_versions(ARRAY(SELECT streams[s] FROM unnest(event_streams) s), steps, NULL);
    END IF;
    IF stream_names IS NOT NULL THEN
        PERFORM {schema}.insist_on_names(stream_names);
    END IF;
    unpinned := ARRAY(SELECT s.id FROM unnest(streams, expected) AS s (id, want) WHERE coalesce(s.want, -1) = -1);
    LOOP
        IF unpinned <> '{}' AND wait_ms IS NULL THEN
            SELECT array_agg(l.stream_id) INTO locked FROM (
                SELECT e.stream_id FROM {schema}.events e
                WHERE e.stream_id = ANY (unpinned) AND e.stream_version = 1
                ORDER BY e.stream_id FOR NO KEY UPDATE SKIP LOCKED
            ) l;
        ELSIF unpinned <> '{}' THEN
            PERFORM set_config('lock_timeout', wait_ms::text, true);
            SELECT array_agg(l.stream_id) INTO locked FROM (
                SELECT e.stream_id FROM {schema}.events e
                WHERE e.stream_id = ANY (unpinned) AND e.stream_version = 1
                ORDER BY e.stream_id FOR NO KEY UPDATE
            ) l;
        END IF;
        -- In a statement of its own, so that it sees what was committed before the locks were ours.
        SELECT array_agg(h.head ORDER BY h.n),
            array_agg(h.id) FILTER (WHERE h.head > 0 AND coalesce(h.want, -1) = -1),
            bool_or(CASE h.want WHEN -1 THEN h.head = 0 ELSE h.head <> h.want END),
            array_agg(h.name ORDER BY h.n)
        INTO heads, existing, conflict, names
        FROM (
            SELECT s.id, s.want, s.n, coalesce(l.stream_version, 0) AS head, coalesce(l.stream_name, s.name) AS name
            FROM unnest(streams, expected, stream_names) WITH ORDINALITY AS s (id, want, name, n)
            LEFT JOIN LATERAL (
                SELECT e.stream_version, e.stream_name FROM {schema}.events e
                WHERE e.stream_id = s.id ORDER BY e.stream_version DESC LIMIT 1) l ON true
        ) h;
        IF conflict THEN
            IF wait_ms IS NOT NULL THEN
                -- The rest of the transaction is the caller's, here as at the end.
                PERFORM set_config('lock_timeout', lock_timeout, true);
            END IF;
            RETURN;
        END IF;
        -- Where it still lacks a lock after a second time, the first row is gone; the unique index keeps versions apart.
        EXIT WHEN again OR coalesce(cardinality(existing), 0) <= coalesce(cardinality(locked), 0);
        -- Another transaction has it, or has just created it.
        IF wait_ms IS NULL THEN
            held := ARRAY(SELECT unnest(existing) EXCEPT SELECT unnest(locked));
            RETURN;
        END IF;
        again := true;
    END LOOP;
    IF wait_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', wait_ms::text, true);
    END IF;
    -- Drawn first: so they ascend in the order of the events, and are known without RETURNING.
    sequences := ARRAY(
        SELECT nextval('{schema_text}.events_global_sequence_seq'::regclass) FROM generate_subscripts(ids, 1));
    INSERT INTO {schema}.events
        (global_sequence, id, stream_id, stream_name, stream_version, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT e.number, e.id, streams[e.stream], names[e.stream], heads[e.stream] + e.step, e.event_type, e.schema_version,
        e.data::json, e.metadata::json, e.created_at
    FROM unnest(sequences, ids, event_streams, steps, event_types, schema_versions, data, metadata, created_at)
        AS e (number, id, stream, step, event_type, schema_version, data, metadata, created_at);
    GET DIAGNOSTICS stored = ROW_COUNT;
    -- Without triggers, rules and partitions, which have their own, the number of rows says it all. Asked after the INSERT, whose lock keeps new ones out.
    IF stored <> cardinality(ids) OR EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = '{schema_text}.events'::regclass AND (c.relhastriggers OR c.relhasrules OR c.relkind <> 'r')) THEN
        PERFORM {schema}.insist_on_rows(sequences,
            ARRAY(SELECT streams[s] FROM unnest(event_streams) WITH ORDINALITY AS e (s, n) ORDER BY n),
            ARRAY(SELECT heads[s] + step FROM unnest(event_streams, steps) WITH ORDINALITY AS e (s, step, n) ORDER BY n),
            ARRAY(SELECT names[s] FROM unnest(event_streams) WITH ORDINALITY AS e (s, n) ORDER BY n),
            ids, event_types, schema_versions, data);
    END IF;
    IF wait_ms IS NOT NULL THEN
        -- The rest of the transaction is the caller's.
        PERFORM set_config('lock_timeout', lock_timeout, true);
    END IF;
END
$highwater$;

-- The same for the commonest case, one event to one stream, in as few steps as possible: a lone caller feels each. Returns
-- {head, number} when it is stored, {head} on a conflict, NULL when the stream is held.
--
-- Operators and types are written out because this function has its owner's rights and sets no search_path: setting one would
-- take a tenth of the time of the whole append.
CREATE FUNCTION {schema}.append_one(
    stream uuid, expected bigint, event_id uuid, type text, version integer, content text, meta text, made timestamptz,
    called text DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    head bigint := 0;
    name pg_catalog.text := called;
    drawn bigint;
    held boolean := false;
    meddled boolean;
BEGIN
    IF NOT {schema}.is_stream_name(called) THEN
        PERFORM {schema}.insist_on_names(ARRAY[called]);
    END IF;
    -- Whether a stream that must not exist really does not, the unique index will tell.
    IF expected IS NULL OR expected OPERATOR(pg_catalog.<>) 0 THEN
        IF expected IS NULL OR expected OPERATOR(pg_catalog.=) -1 THEN
            PERFORM FROM {schema}.events e
            WHERE e.stream_id OPERATOR(pg_catalog.=) stream AND e.stream_version OPERATOR(pg_catalog.=) 1
            FOR NO KEY UPDATE SKIP LOCKED;
            held := NOT FOUND;
        END IF;
        -- A statement of its own, so that it sees what was committed before the lock was ours.
        SELECT e.stream_version, coalesce(e.stream_name, called) INTO head, name FROM {schema}.events e
        WHERE e.stream_id OPERATOR(pg_catalog.=) stream ORDER BY e.stream_version DESC LIMIT 1;
        IF NOT FOUND THEN
            head := 0;
            name := called;
            held := false;
        END IF;
        -- Also with an expectation that is none.
        IF expected OPERATOR(pg_catalog.<>) -1 AND head OPERATOR(pg_catalog.<>) expected
            OR expected OPERATOR(pg_catalog.=) -1 AND head OPERATOR(pg_catalog.=) 0 THEN
            RETURN ARRAY[head];
        END IF;
        IF held THEN
            RETURN NULL;
        END IF;
    END IF;
    drawn := pg_catalog.nextval('{schema_text}.events_global_sequence_seq'::pg_catalog.regclass);
    INSERT INTO {schema}.events
        (global_sequence, id, stream_id, stream_name, stream_version, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    VALUES (drawn, event_id, stream, name, head OPERATOR(pg_catalog.+) 1, type, version, content::pg_catalog.json,
        meta::pg_catalog.json, made)
    -- In the same statement, because one of its own would cost three times as much; its lock keeps new ones out.
    RETURNING (
        SELECT c.relhastriggers OR c.relhasrules OR c.relkind OPERATOR(pg_catalog.<>) 'r' FROM pg_catalog.pg_class c
        WHERE c.oid OPERATOR(pg_catalog.=) '{schema_text}.events'::pg_catalog.regclass) INTO meddled;
    IF meddled IS NOT FALSE THEN
        PERFORM {schema}.insist_on_rows(ARRAY[drawn], ARRAY[stream], ARRAY[head OPERATOR(pg_catalog.+) 1], ARRAY[name],
            ARRAY[event_id], ARRAY[type], ARRAY[version], ARRAY[content]);
    END IF;
    RETURN ARRAY[head, drawn];
END
$highwater$;

-- Appending to streams that do not exist yet, which is what many events at a time mostly are: nothing to look up, nothing
-- to lock, versions known beforehand. Whether the streams really do not exist, the unique index tells; then nothing is
-- stored, and `append_group` says why.
--
-- `json` comes as `json`, so that it is parsed once and copied once. `unnest` stands in the list of columns because there it
-- gives one row after the other; in FROM each array would be written down first. Numbers are drawn before the rows are made:
-- RETURNING would have them all written down once more. Returns the numbers, in the order of the events.
--
-- Everything is named in full because this function has its owner's rights and sets no search_path; see `append_one`.
CREATE FUNCTION {schema}.append_new(
    stream_ids uuid[], stream_versions bigint[], ids uuid[], event_types text[], schema_versions integer[], data json[],
    metadata json[], created_at timestamptz[], stream_names text[] DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    numbers bigint[];
    stored bigint;
BEGIN
    -- As in `append_group`. A stream that is there has version 1 already, which the unique index does not allow twice.
    IF (1 OPERATOR(pg_catalog.=) ALL (stream_versions)) IS NOT TRUE THEN
        PERFORM {schema}.insist_on_versions(stream_ids, stream_versions, stream_names);
    END IF;
    IF stream_names IS NOT NULL THEN
        PERFORM {schema}.insist_on_names(stream_names);
    END IF;
    numbers := ARRAY(
        SELECT pg_catalog.nextval('{schema_text}.events_global_sequence_seq'::pg_catalog.regclass)
        FROM pg_catalog.generate_subscripts(ids, 1));
    INSERT INTO {schema}.events
        (global_sequence, stream_id, stream_version, stream_name, id, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT pg_catalog.unnest(numbers), pg_catalog.unnest(stream_ids), pg_catalog.unnest(stream_versions),
        pg_catalog.unnest(stream_names), pg_catalog.unnest(ids), pg_catalog.unnest(event_types), pg_catalog.unnest(schema_versions),
        pg_catalog.unnest(data), pg_catalog.unnest(metadata), pg_catalog.unnest(created_at);
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored OPERATOR(pg_catalog.<>) pg_catalog.cardinality(ids) OR EXISTS (
        SELECT FROM pg_catalog.pg_class c
        WHERE c.oid OPERATOR(pg_catalog.=) '{schema_text}.events'::pg_catalog.regclass
            AND (c.relhastriggers OR c.relhasrules OR c.relkind OPERATOR(pg_catalog.<>) 'r')) THEN
        PERFORM {schema}.insist_on_rows(numbers, stream_ids, stream_versions, stream_names, ids, event_types, schema_versions,
            data::pg_catalog.text[]);
    END IF;
    RETURN numbers;
END
$highwater$;

-- For psql and other languages: one event. Waits for a stream that is held, raises HW001 on a conflict and HW003 when the
-- id belongs to another event; an id that is stored already returns the numbers it got then.
CREATE FUNCTION {schema}.append(
    stream_id uuid, event_type text, data json, expected bigint DEFAULT NULL, metadata json DEFAULT '{}',
    id uuid DEFAULT gen_random_uuid(), schema_version integer DEFAULT 1, stream_name text DEFAULT NULL)
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
    -- JSON with an escaped NUL or half of a surrogate pair could be stored, but not be looked into, decoded and copied wherever other
    -- JSON is. The library has checked that before it calls the functions above, where a look at every event would be felt. Few events
    -- have an escape by number at all; then every string is gone through.
    IF strpos(append.data::text, E'\\u') > 0 OR strpos(append.metadata::text, E'\\u') > 0 THEN
        BEGIN
            PERFORM json_strip_nulls(append.data), json_strip_nulls(append.metadata);
        EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
            RAISE EXCEPTION USING ERRCODE = 'HW008',
                MESSAGE = 'data and metadata must hold neither the character U+0000 nor half of a surrogate pair';
        END;
    END IF;
    SELECT e.* INTO stored FROM {schema}.events e WHERE e.id = append.id;
    IF NOT FOUND THEN
        BEGIN
            SELECT g.* INTO done FROM {schema}.append_group(
                ARRAY[append.stream_id], ARRAY[append.expected], 30000, ARRAY[1], ARRAY[1], ARRAY[append.id],
                ARRAY[append.event_type], ARRAY[append.schema_version], ARRAY[append.data::text],
                ARRAY[append.metadata::text], ARRAY[clock_timestamp()], ARRAY[append.stream_name]) g;
            IF done.sequences IS NOT NULL THEN
                RETURN QUERY SELECT done.sequences[1], done.heads[1] + 1;
                RETURN;
            END IF;
        EXCEPTION WHEN unique_violation THEN
            -- Another writer was faster: with this very event, or with this version.
        END;
        SELECT e.* INTO stored FROM {schema}.events e WHERE e.id = append.id;
        IF NOT FOUND THEN
            SELECT e.* INTO stored FROM {schema}.events e WHERE e.stream_id = append.stream_id
            ORDER BY e.stream_version DESC LIMIT 1;
            RAISE EXCEPTION USING ERRCODE = 'HW001',
                MESSAGE = format('conflict: stream %s is at version %s',
                    coalesce(stored.stream_name, append.stream_name, append.stream_id::text),
                    coalesce(stored.stream_version, 0)),
                HINT = 'Read the stream again and decide again.';
        END IF;
    END IF;
    IF (stored.stream_id, stored.event_type, stored.data::text)
        IS DISTINCT FROM (append.stream_id, append.event_type, append.data::text) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW003',
            MESSAGE = format('event id %s belongs to another event, in stream %s', append.id,
                coalesce(stored.stream_name, stored.stream_id::text)),
            HINT = 'Use another id.';
    END IF;
    -- It can be seen, which does not mean that it is on the disk and on the replicas: this makes the commit wait for that.
    PERFORM pg_logical_emit_message(true, 'highwater', '');
    RETURN QUERY SELECT stored.global_sequence, stored.stream_version;
END
$highwater$;

REVOKE ALL ON FUNCTION {schema}.append, {schema}.append_one, {schema}.append_group, {schema}.append_new FROM PUBLIC;

-- In place of 0001_events when there is an events table already: the older layout, without numbers
-- (id, stream_id, stream_version, event_type, data jsonb, created_at), or one that numbers by a column default.
LOCK TABLE {schema}.events IN ACCESS EXCLUSIVE MODE;

DO $highwater$
DECLARE
    bad uuid;
BEGIN
    SELECT e.stream_id INTO bad FROM {schema}.events e
    GROUP BY e.stream_id
    HAVING min(e.stream_version) <> 1 OR max(e.stream_version) <> count(*) OR count(DISTINCT e.stream_version) <> count(*)
    LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002',
            MESSAGE = format('the versions of stream %s are not 1, 2, 3 … without holes or doubles', bad),
            HINT = 'Renumber the streams concerned, then initialize again.';
    END IF;
END
$highwater$;

DO $highwater$
DECLARE
    kind text := (
        SELECT format_type(a.atttypid, NULL) FROM pg_attribute a
        WHERE a.attrelid = '{schema_text}.events'::regclass AND a.attname = 'stream_name' AND NOT a.attisdropped);
BEGIN
    IF kind <> 'text' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002',
            MESSAGE = format('the events table has a column stream_name already, of type %s', kind),
            HINT = 'Rename it, and initialize again.';
    END IF;
END
$highwater$;

-- A recovery would empty it.
ALTER TABLE {schema}.events SET LOGGED;

ALTER TABLE {schema}.events
    ADD COLUMN IF NOT EXISTS schema_version integer NOT NULL DEFAULT 1,
    ADD COLUMN IF NOT EXISTS metadata json NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS global_sequence bigint,
    ADD COLUMN IF NOT EXISTS stream_name text;

-- Numbers for the rows that have none, by the time they were made; after the highest there is, if there are some.
UPDATE {schema}.events e SET global_sequence = n.number
FROM (
    SELECT o.id, (SELECT coalesce(max(m.global_sequence), 0) FROM {schema}.events m)
        + row_number() OVER (ORDER BY o.created_at, o.id) AS number
    FROM {schema}.events o WHERE o.global_sequence IS NULL
) n
WHERE n.id = e.id;

UPDATE {schema}.events SET data = 'null' WHERE data IS NULL;

ALTER TABLE {schema}.events ALTER COLUMN global_sequence DROP DEFAULT;

ALTER TABLE {schema}.events
    ALTER COLUMN global_sequence SET NOT NULL,
    ALTER COLUMN id SET NOT NULL,
    ALTER COLUMN stream_id SET NOT NULL,
    ALTER COLUMN stream_version TYPE bigint,
    ALTER COLUMN stream_version SET NOT NULL,
    ALTER COLUMN event_type TYPE text,
    ALTER COLUMN event_type SET NOT NULL,
    ALTER COLUMN data TYPE json USING data::text::json,
    ALTER COLUMN data SET NOT NULL,
    ALTER COLUMN metadata TYPE json USING metadata::text::json,
    ALTER COLUMN created_at TYPE timestamptz,
    ALTER COLUMN created_at SET DEFAULT now(),
    ALTER COLUMN created_at SET NOT NULL,
    ALTER COLUMN stream_name DROP NOT NULL,
    DROP CONSTRAINT IF EXISTS events_sizes_check;

DO $highwater$
DECLARE
    wanted record;
    columns smallint[];
BEGIN
    IF (SELECT a.attidentity = '' FROM pg_attribute a
        WHERE a.attrelid = '{schema_text}.events'::regclass AND a.attname = 'global_sequence') THEN
        DROP SEQUENCE IF EXISTS {schema}.events_global_sequence_seq;
        ALTER TABLE {schema}.events ALTER COLUMN global_sequence ADD GENERATED ALWAYS AS IDENTITY
            (SEQUENCE NAME {schema}.events_global_sequence_seq INCREMENT 1 START 1 CACHE 1 NO CYCLE);
    END IF;
    PERFORM setval('{schema_text}.events_global_sequence_seq', greatest(max(e.global_sequence), 1), count(*) > 0)
    FROM {schema}.events e;

    FOR wanted IN
        SELECT * FROM (VALUES
            ('events_global_sequence_key', ARRAY['global_sequence']),
            ('events_id_key', ARRAY['id']),
            ('events_stream_version_key', ARRAY['stream_id', 'stream_version'])) AS w (name, columns)
    LOOP
        SELECT array_agg(a.attnum ORDER BY c.n) INTO columns
        FROM unnest(wanted.columns) WITH ORDINALITY AS c (name, n)
        JOIN pg_attribute a ON a.attrelid = '{schema_text}.events'::regclass AND a.attname = c.name;
        IF NOT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = '{schema_text}.events'::regclass AND i.indisunique AND i.indpred IS NULL
                AND string_to_array(i.indkey::text, ' ')::smallint[] = columns) THEN
            EXECUTE format('ALTER TABLE {schema_text}.events ADD CONSTRAINT %I UNIQUE (%s)', wanted.name,
                array_to_string(wanted.columns, ', '));
        END IF;
    END LOOP;
END
$highwater$;

ALTER TABLE {schema}.events
    ADD CONSTRAINT events_stream_version_check CHECK (stream_version > 0),
    ADD CONSTRAINT events_event_type_check CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    ADD CONSTRAINT events_schema_version_check CHECK (schema_version > 0),
    ADD CONSTRAINT events_metadata_check CHECK (json_typeof(metadata) = 'object'),
    -- Not validated here: a time that no reader could represent must not keep a table from being adopted. initialize() tries
    -- to afterwards, beside the writers.
    ADD CONSTRAINT events_created_at_sane
        CHECK (created_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange) NOT VALID,
    -- Rows that are there are not looked at.
    ADD CONSTRAINT events_sizes_check CHECK (
        octet_length(stream_name) <= 1000 AND pg_column_size(data) + pg_column_size(metadata) <= 67108872) NOT VALID;

CREATE INDEX IF NOT EXISTS events_stream_name_idx ON {schema}.events (stream_name COLLATE "C", stream_id)
    WHERE stream_version = 1 AND stream_name IS NOT NULL;

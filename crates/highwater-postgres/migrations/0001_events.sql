-- The log. The order of all events rests on the identity column: CACHE 1, INCREMENT 1, and the lock that nextval holds
-- on the sequence until its transaction ends.
CREATE TABLE {schema}.events (
    global_sequence bigint GENERATED ALWAYS AS IDENTITY
        (SEQUENCE NAME {schema}.events_global_sequence_seq INCREMENT 1 START 1 CACHE 1 NO CYCLE),
    stream_version bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    id uuid NOT NULL,
    stream_id uuid NOT NULL,
    schema_version integer NOT NULL DEFAULT 1,
    event_type text NOT NULL,
    -- json, not jsonb: exact to the byte, and much faster to read.
    data json NOT NULL,
    metadata json NOT NULL DEFAULT '{}',
    -- An event has the name of the event before it in its stream; where that has none, the one that its append brings. So every
    -- event of a stream that began with a name has it, also when a writer appends by its id alone, and a reader needs no second
    -- look.
    stream_name text,
    CONSTRAINT events_pkey PRIMARY KEY (global_sequence),
    CONSTRAINT events_id_key UNIQUE (id),
    CONSTRAINT events_stream_version_key UNIQUE (stream_id, stream_version),
    CONSTRAINT events_stream_version_check CHECK (stream_version > 0),
    CONSTRAINT events_event_type_check CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    CONSTRAINT events_schema_version_check CHECK (schema_version > 0),
    CONSTRAINT events_metadata_check CHECK (json_typeof(metadata) = 'object'),
    -- The years that the library stores; no reader could represent "infinity". One comparison, because PostgreSQL makes each
    -- constraint's expression anew for every INSERT.
    CONSTRAINT events_created_at_sane
        CHECK (created_at <@ '[0001-01-01 00:00:00+00,10000-01-01 00:00:00+00)'::tstzrange),
    -- Other writers may call streams as they like, as long as it can be indexed and copied; and no event is larger than every
    -- reader can take: 64 MiB, and up to 8 bytes of headers. The size is that of the value as it is in memory, which costs nothing
    -- to ask. What an INSERT copies from another table where it is compressed counts as it is there: to unpack it, the expression
    -- would have to be longer, and every lone append pays for its length.
    CONSTRAINT events_sizes_check CHECK (
        octet_length(stream_name) <= 1000 AND pg_column_size(data) + pg_column_size(metadata) <= 67108872)
);

-- One entry per stream, for lists by kind. Bytes are compared, so that a prefix is a range.
CREATE INDEX events_stream_name_idx ON {schema}.events (stream_name COLLATE "C", stream_id)
    WHERE stream_version = 1 AND stream_name IS NOT NULL;

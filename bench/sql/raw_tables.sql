-- Our columns, in our order (no padding is lost between them), without anything of our safety.
CREATE SCHEMA raw;
CREATE TABLE raw.events (
    global_sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    id uuid NOT NULL,
    stream_id uuid NOT NULL,
    event_type text NOT NULL,
    data json NOT NULL,
    metadata json NOT NULL
);
-- The same with our indexes: what those alone cost.
CREATE TABLE raw.events_indexed (LIKE raw.events INCLUDING ALL, UNIQUE (id), UNIQUE (stream_id, stream_version));

CREATE SCHEMA raw;
-- Our columns, in our order, without anything of our safety.
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
CREATE TABLE raw.checkpoints (subscriber_id text PRIMARY KEY, last_global_sequence bigint NOT NULL) WITH (fillfactor = 40);

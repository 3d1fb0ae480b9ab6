-- Leadership: who processes for a subscriber, and which instances there are. What is written here informs; whether somebody
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
    coordinated boolean NOT NULL
);

CREATE TABLE {schema}.event_bus_instances (
    session uuid PRIMARY KEY,
    instance_id uuid NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    label text,
    wants text[] NOT NULL,
    prefers text[] NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE demo_handled (
    subscriber_id text NOT NULL,
    instance bigint NOT NULL,
    events bigint NOT NULL,
    -- Microseconds since 1970, by the instance's clock.
    handled_at bigint NOT NULL
)

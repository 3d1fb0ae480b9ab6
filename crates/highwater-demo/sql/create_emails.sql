CREATE TABLE demo_emails (
    -- What tells an e-mail that has been sent already.
    event_id uuid PRIMARY KEY,
    address text NOT NULL,
    -- How often it was asked for. It is sent the first time.
    asked bigint NOT NULL,
    instance bigint NOT NULL,
    sent_at bigint NOT NULL
)

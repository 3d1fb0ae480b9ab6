-- What customers were told is stored: their own list, which nothing else is read from or written to.
CREATE TABLE demo_accepted (
    order_id uuid PRIMARY KEY,
    customer bigint NOT NULL,
    cents bigint NOT NULL
)

CREATE TABLE demo_revenue (
    customer bigint PRIMARY KEY,
    cents bigint NOT NULL,
    payments bigint NOT NULL
)

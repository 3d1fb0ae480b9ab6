CREATE TABLE demo_customers (
    customer bigint PRIMARY KEY,
    address text NOT NULL
)

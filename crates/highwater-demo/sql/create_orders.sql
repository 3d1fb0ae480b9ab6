CREATE TABLE demo_orders (
    order_id uuid PRIMARY KEY,
    customer bigint NOT NULL,
    status text NOT NULL,
    -- How many events it is made of: one that is handled twice, or never, shows here.
    events bigint NOT NULL
)

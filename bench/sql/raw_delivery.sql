CREATE SCHEMA IF NOT EXISTS raw;
-- What both sides write.
CREATE TABLE raw.customers (customer bigint PRIMARY KEY, orders bigint NOT NULL, amount bigint NOT NULL);
-- Stored as ours is, so that updates find room beside the old row, and without what fences need.
CREATE TABLE raw.checkpoints (
    subscriber_id varchar(255) PRIMARY KEY,
    last_global_sequence bigint NOT NULL
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
INSERT INTO raw.checkpoints VALUES ('projection:raw', 0);

-- All rows but those whose order begins a stream. From the log to the rows: SQLite has no index for the other way, because
-- it takes a column of the type uuid for a number.
SELECT
    CAST(0 AS bigint),
    (SELECT count(*) FROM demo_orders)
    - (SELECT count(*) FROM events e JOIN demo_orders o ON o.order_id = e.stream_id WHERE e.stream_version = 1)

-- How large the log is, and how fast it has grown of late: how long ago the last so many events began.
SELECT pg_table_size(c.oid) AS bytes, pg_indexes_size(c.oid) AS index_bytes,
    greatest(c.reltuples::bigint, s.n_live_tup, l.count) AS events, l.count AS late, l.seconds
FROM pg_class c
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
CROSS JOIN (
    SELECT count(*) AS count, extract(epoch FROM now() - min(e.created_at))::float8 AS seconds
    FROM (SELECT o.created_at FROM {schema}.events o ORDER BY o.global_sequence DESC LIMIT 10000) e
) l
WHERE c.oid = '{schema_text}.events'::regclass

-- What vacuum has to do with our tables. $1 is the schema.
SELECT c.relname::text AS name,
    EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o
            WHERE o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean) AS left_alone,
    age(c.relfrozenxid)::bigint AS age, coalesce(s.n_dead_tup, 0) AS dead, coalesce(s.n_live_tup, 0) AS live
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE n.nspname = $1 AND c.relkind = 'r' AND (c.relname IN ('events', 'migrations') OR c.relname LIKE 'event\_bus\_%')
ORDER BY c.relname COLLATE "C"

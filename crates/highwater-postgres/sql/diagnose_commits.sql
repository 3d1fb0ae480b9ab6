-- Commits that have been waiting for a synchronous replica for more than $1 seconds, and for how long the first of them has. Of other
-- roles only with pg_read_all_stats.
SELECT count(*) AS waiting, max(w.age) AS age FROM (
    SELECT extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS age
    FROM pg_stat_activity a WHERE a.wait_event = 'SyncRep'
) w
WHERE w.age > $1

-- Which sessions are there, whether they are at work, and what they wait for: $1 are their processes, $2 a time at which each of
-- these was theirs, $3 for how many seconds nobody has waited for its answer. A session that began later has only got the same
-- number, and a statement that did is another client's, behind a pooler. What sessions of the same role do is visible to every
-- role, except where activities are not tracked: then what they wait for is.
SELECT s.pid, s.seen, a.wait_event,
    (a.state = 'active' OR a.state = 'disabled' AND a.wait_event IS DISTINCT FROM 'ClientRead')
        AND coalesce(a.query_start <= clock_timestamp() - s.unwaited * interval '1 second', true) AS at_work
FROM unnest($1::integer[], $2::timestamptz[], $3::float8[]) AS s (pid, seen, unwaited)
JOIN pg_stat_activity a ON a.pid = s.pid AND a.backend_start <= s.seen
WHERE a.state IS NOT NULL

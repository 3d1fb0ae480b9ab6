SELECT coalesce(sum(s.calls), 0)::bigint FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
WHERE r.rolname = $1

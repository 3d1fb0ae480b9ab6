SELECT pg_advisory_xact_lock(('x' || substr(md5('highwater migrations ' || $1), 1, 16))::bit(64)::bigint)

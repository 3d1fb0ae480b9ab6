-- Of the session: it goes with the connection, and nothing else of ours is done on that.
SELECT pg_advisory_lock(('x' || substr(md5('highwater filling ' || $1), 1, 16))::bit(64)::bigint)

-- Longer than it takes a server to notice that one of its processes was killed: then it ends all connections.
SELECT pg_sleep(10)

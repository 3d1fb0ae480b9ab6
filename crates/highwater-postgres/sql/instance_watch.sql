-- Waits until a session is gone, on a connection that does nothing else. The lock is given back at once.
SELECT pg_advisory_lock($1, $2), pg_advisory_unlock($1, $2)

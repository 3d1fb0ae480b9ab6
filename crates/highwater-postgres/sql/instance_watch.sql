-- Waits until a session is gone, for so many milliseconds; whether it is. On a connection that does nothing else.
SELECT {schema}.session_is_gone($1, $2, $3)

-- For connections that write: whoever wants to asks again in its own time.
PRAGMA busy_timeout = 0

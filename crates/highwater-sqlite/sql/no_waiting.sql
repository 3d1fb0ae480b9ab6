-- For connections that write: each writer asks again in its own time.
PRAGMA busy_timeout = 0

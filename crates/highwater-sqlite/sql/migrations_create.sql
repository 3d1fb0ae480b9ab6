CREATE TABLE IF NOT EXISTS highwater_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    -- The oldest layout that a library may have been written for and still work with this one.
    oldest INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT

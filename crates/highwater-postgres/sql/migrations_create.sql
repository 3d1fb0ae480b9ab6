-- `oldest` is the oldest layout that a library may have been written for and still work with this one; as much as the version
-- itself where nothing else is said.
CREATE TABLE IF NOT EXISTS {schema}.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    oldest integer
)

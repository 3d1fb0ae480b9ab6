-- Which layout this is, and the oldest that a library may know and still work with it.
SELECT coalesce(max(m.version), 0), coalesce(max(coalesce(m.oldest, m.version)), 0) FROM {schema}.migrations m

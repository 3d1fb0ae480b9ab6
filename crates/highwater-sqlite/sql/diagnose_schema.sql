-- Tables and indexes, and how they were made. What SQLite makes by itself goes with its table.
SELECT type, name, sql FROM sqlite_schema
WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
ORDER BY type DESC, name

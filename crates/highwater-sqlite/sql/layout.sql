-- Whether there is a table of migrations, and how many tables there are in all.
SELECT coalesce(sum(name = 'highwater_migrations'), 0), count(*) FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'

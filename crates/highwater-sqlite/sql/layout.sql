-- Whose file it is, whether there is a table of migrations, and how many tables there are in all: of one moment, or a
-- process that is just laying it out is taken for a stranger.
SELECT (SELECT application_id FROM pragma_application_id), coalesce(sum(name = 'highwater_migrations'), 0), count(*)
FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'

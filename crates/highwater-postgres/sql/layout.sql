-- What initialize() finds: whether there is a schema, a table of migrations, an events table.
SELECT to_regnamespace('{schema_text}') IS NOT NULL,
    to_regclass('{schema_text}.migrations') IS NOT NULL,
    to_regclass('{schema_text}.events') IS NOT NULL

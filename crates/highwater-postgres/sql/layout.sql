-- What initialize() finds: whether there is a schema, a table of migrations, and tables that can be adopted. Asked of the tables
-- and not of to_regclass(), whose cache may be stale right after waiting for an advisory lock.
SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = $1),
    EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relname = 'migrations'),
    ARRAY(SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = $1 AND c.relname IN ('events', 'event_bus_checkpoints', 'event_bus_dlq'))

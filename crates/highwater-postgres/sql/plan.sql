-- What initialize() would meet. $1 is the schema, $2 the relations it would create.
WITH there AS (
    SELECT c.relname::text AS name, c.relowner AS owner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1)
SELECT current_user::text AS role, current_setting('transaction_read_only')::boolean AS read_only,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    (SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = $1) AS may_create_tables,
    ARRAY(
        SELECT t.name FROM there t
        WHERE t.name IN ('migrations', 'events', 'event_bus_checkpoints', 'event_bus_dlq')
            AND NOT pg_has_role(t.owner, 'USAGE')
        ORDER BY t.name) AS of_others,
    ARRAY(SELECT t.name FROM there t WHERE t.name = ANY ($2::text[]) ORDER BY t.name) AS in_the_way

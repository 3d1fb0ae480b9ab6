-- Filling a store with what another one holds. While that is not finished there is a row here, and triggers that keep
-- every other session from writing, also those that connected before. They are made when a filling begins and dropped when it ends:
-- otherwise nobody pays for them.

CREATE TABLE {schema}.filling (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    source text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    filled_to bigint NOT NULL DEFAULT 0,
    -- True only inside the transactions of the session that fills: no other ever sees it so.
    open boolean NOT NULL DEFAULT false
);

-- With its owner's rights: who writes need not be allowed to read the table.
CREATE FUNCTION {schema}.refuse_while_filling() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $highwater$
DECLARE
    filling {schema}.filling;
BEGIN
    SELECT f.* INTO filling FROM {schema}.filling f;
    IF filling.open IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'HW004',
            MESSAGE = format('this store is being filled from "%s" since %s', filling.source, filling.since),
            HINT = 'Finish the filling, or abandon it.';
    END IF;
    RETURN NULL;
END
$highwater$;

-- Makes the triggers, or drops them.
CREATE FUNCTION {schema}.filling_guard(wanted boolean) RETURNS void
LANGUAGE plpgsql
AS $highwater$
DECLARE
    guarded text;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['events', 'event_bus_checkpoints', 'event_bus_pauses', 'event_bus_dlq',
        'event_bus_dlq_attempts', 'event_bus_requests'] LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS refuse_while_filling ON {schema_text}.%I', guarded);
        IF wanted THEN
            EXECUTE format('CREATE TRIGGER refuse_while_filling BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE '
                'ON {schema_text}.%I FOR EACH STATEMENT EXECUTE FUNCTION {schema_text}.refuse_while_filling()', guarded);
        END IF;
    END LOOP;
END
$highwater$;

REVOKE ALL ON FUNCTION {schema}.refuse_while_filling FROM PUBLIC;
REVOKE ALL ON FUNCTION {schema}.filling_guard FROM PUBLIC;

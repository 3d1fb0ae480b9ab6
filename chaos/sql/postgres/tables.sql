-- What transactional subscribers make of events, and a trigger that writes down who moves which checkpoint.
CREATE TABLE public.chaos_rows (
    n bigserial PRIMARY KEY,
    subscriber_id text NOT NULL,
    global_sequence bigint NOT NULL,
    term bigint NOT NULL,
    written_by text NOT NULL
);
CREATE INDEX chaos_rows_subscriber ON public.chaos_rows (subscriber_id);

CREATE TABLE public.chaos_tallies (
    subscriber_id text NOT NULL,
    stream_id uuid NOT NULL,
    events bigint NOT NULL,
    versions bigint NOT NULL,
    last_version bigint NOT NULL,
    PRIMARY KEY (subscriber_id, stream_id)
);

CREATE TABLE public.chaos_audit (
    n bigserial PRIMARY KEY,
    subscriber_id text NOT NULL,
    term bigint NOT NULL,
    global_sequence bigint NOT NULL,
    written_by text NOT NULL
);

CREATE FUNCTION public.chaos_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO chaos_audit (subscriber_id, term, global_sequence, written_by)
    VALUES (NEW.subscriber_id, NEW.term, NEW.last_global_sequence, current_setting('application_name'));
    RETURN NULL;
END
$$;

CREATE TRIGGER chaos_audit AFTER INSERT OR UPDATE OF term, last_global_sequence ON highwater.event_bus_checkpoints
    FOR EACH ROW EXECUTE FUNCTION public.chaos_audit();

-- May connect, and nothing else.
CREATE ROLE chaos_stranger LOGIN;

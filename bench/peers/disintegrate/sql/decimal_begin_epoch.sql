-- PostgreSQL reads hexadecimal numbers since version 16. Nothing else is changed.
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('event_store_begin_epoch'::regproc), '0xFFFFFFFF', '4294967295');
END
$$

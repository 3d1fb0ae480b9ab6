-- Whether this server shows the lock that the order rests on: an error where it does not. A number is asked for in a
-- transaction that only reads. nextval takes its lock before it looks whether it may, so nothing is drawn and no right is
-- needed; and not from the log's own sequence, because that would hold readers back.
DO $highwater$
BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    BEGIN
        PERFORM nextval('{schema_text}.event_bus_terms');
    EXCEPTION WHEN read_only_sql_transaction OR insufficient_privilege THEN
        NULL;
    END;
    IF NOT EXISTS (
        SELECT FROM pg_locks l
        WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND l.relation = '{schema_text}.event_bus_terms'::regclass
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002',
            MESSAGE = 'pg_locks does not show who draws numbers from a sequence (nextval), so readers could not tell which '
                || 'events may still come and would skip some; this is not PostgreSQL, or one that was changed: use a server '
                || 'that shows the lock';
    END IF;
END
$highwater$

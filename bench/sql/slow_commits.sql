-- A transaction takes up to 20 ms between its last statement and its commit (5 ms in the mean: most are short, a few are long, and
-- those are what a careless reader skips), and one in seven is rolled back there, with a
-- code that no library takes for one of its own conflicts.
CREATE FUNCTION public.slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Once for a transaction, however many rows it has.
    IF current_setting('bench.slowed', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        PERFORM set_config('bench.slowed', pg_current_xact_id()::text, true);
        PERFORM pg_sleep(0.02 * random() ^ 3);
        IF random() < 1.0 / 7 THEN
            RAISE EXCEPTION 'rolled back on purpose' USING ERRCODE = 'RB001';
        END IF;
    END IF;
    RETURN NULL;
END
$$

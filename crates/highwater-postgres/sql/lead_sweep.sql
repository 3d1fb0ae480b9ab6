-- Tries for locks, and says which it got, by their place in the arrays. With $3 it also says which locks the session holds
-- in all; and every time, whether it is still the same session, on a server that can be written to.
SELECT pg_backend_pid(),
    pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
    ARRAY(
        SELECT w.place FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY w (high, low, place)
        WHERE pg_try_advisory_lock(w.high, w.low)),
    CASE WHEN $3 THEN ARRAY(
        SELECT k.classid::bigint << 32 | k.objid::bigint FROM pg_locks k
        WHERE k.pid = pg_backend_pid() AND k.locktype = 'advisory' AND k.objsubid = 2 AND k.granted) END

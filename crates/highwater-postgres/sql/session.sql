-- For connections of our own, and ($2) for transactions of the caller's that are about to append. Settles what the order
-- rests on, and makes sure that a host which vanishes in the middle of a transaction does not hold every reader back for
-- hours: $3 is how many milliseconds a transaction may be left idle, $4 whether transactions are the application's. $5: nothing of
-- the application runs here, so that names mean PostgreSQL's own, whatever others have created in the schemas of a search_path.
-- This statement, and those that run beside the application's, say what they mean by exact types and by name.
SELECT
    pg_catalog.set_config('default_transaction_isolation', 'read committed', $2),
    pg_catalog.set_config('tcp_keepalives_idle', '5', $2),
    pg_catalog.set_config('tcp_keepalives_interval', '2', $2),
    pg_catalog.set_config('tcp_keepalives_count', '3', $2),
    pg_catalog.set_config('tcp_user_timeout', '10000', $2),
    -- A role's own would end connections that are kept for when they are needed.
    pg_catalog.set_config('idle_session_timeout', '0', $2),
    -- A role's own, on servers that know it (17 and later), would end whatever waits: a handler, or for another instance's
    -- end. Of the application's transactions it is none of our business.
    CASE WHEN NOT $4 AND current_setting('transaction_timeout', true) IS NOT NULL
        THEN pg_catalog.set_config('transaction_timeout', '0', $2) END,
    CASE WHEN $5 THEN pg_catalog.set_config('search_path', 'pg_catalog', $2) END,
    -- Names of types are compared as they are written without it.
    CASE WHEN $5 THEN pg_catalog.set_config('quote_all_identifiers', 'off', $2) END,
    pg_catalog.set_config('lock_timeout', coalesce($1, current_setting('lock_timeout')), $2),
    pg_catalog.set_config('idle_in_transaction_session_timeout',
        -- As an interval, because it is shown with a unit. pg_settings knows the number, and takes a millisecond to list all.
        (SELECT (CASE WHEN own.ms BETWEEN 1 AND $3 THEN own.ms ELSE $3 END)::text FROM (
            SELECT (1000::numeric * extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval))::bigint
        ) AS own (ms)), $2),
    pg_catalog.set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        $2),
    upper(current_setting('transaction_isolation')) AS isolation,
    -- By which this session is found again when nobody waits for its answer any more.
    pg_backend_pid() AS pid, clock_timestamp() AS seen

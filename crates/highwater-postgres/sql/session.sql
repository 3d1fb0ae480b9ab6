-- For connections of our own. Settles what the order rests on, and makes sure that a host which vanishes in the middle of
-- a transaction does not hold every reader back for hours.
SELECT
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('tcp_keepalives_idle', '5', false),
    set_config('tcp_keepalives_interval', '2', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '10000', false),
    set_config('lock_timeout', coalesce($1, current_setting('lock_timeout')), false),
    set_config('idle_in_transaction_session_timeout',
        (SELECT CASE WHEN s.setting::integer BETWEEN 1 AND 5000 THEN s.setting ELSE '5000' END
         FROM pg_settings s WHERE s.name = 'idle_in_transaction_session_timeout'), false),
    set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false)

-- For a transaction of the caller's that is about to append: the same care, until it ends.
SELECT
    set_config('tcp_keepalives_idle', '5', true),
    set_config('tcp_keepalives_interval', '2', true),
    set_config('tcp_keepalives_count', '3', true),
    set_config('tcp_user_timeout', '10000', true),
    set_config('idle_in_transaction_session_timeout',
        (SELECT CASE WHEN s.setting::integer BETWEEN 1 AND 5000 THEN s.setting ELSE '5000' END
         FROM pg_settings s WHERE s.name = 'idle_in_transaction_session_timeout'), true),
    set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        true)

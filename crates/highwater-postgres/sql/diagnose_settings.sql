-- Settings as a new session of this role would have them: our own connections have set some for themselves.
SELECT s.name, s.reset_val AS value, s.setting AS here, s.source FROM pg_settings s
WHERE s.name IN ('autovacuum', 'default_transaction_read_only', 'fsync', 'full_page_writes', 'idle_session_timeout',
    'idle_in_transaction_session_timeout', 'statement_timeout', 'synchronous_commit', 'tcp_keepalives_idle',
    'transaction_timeout')
ORDER BY s.name COLLATE "C"

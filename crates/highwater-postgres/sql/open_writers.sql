-- Locks are visible to every role; what another role runs only with pg_read_all_stats. A prepared transaction has no
-- process: it is found by its transaction id. Who has no id has written nothing, and may only have looked: currval,
-- pg_sequences and a nextval that was refused take the lock that nextval takes. But drawing a number mostly needs no id either.
SELECT l.virtualtransaction, l.pid, coalesce(a.usename::text, p.owner::text) AS role,
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8 AS age,
    CASE WHEN a.xact_start IS NOT NULL THEN a.application_name END AS application_name,
    coalesce(CASE WHEN a.xact_start IS NOT NULL THEN a.query END, p.gid) AS last_statement,
    NOT EXISTS (SELECT FROM pg_locks w
                WHERE w.virtualtransaction = l.virtualtransaction AND w.locktype = 'transactionid'
                    AND w.mode = 'ExclusiveLock' AND w.granted) AS may_only_have_looked,
    a.wait_event IS NOT DISTINCT FROM 'SyncRep' AS waits_for_replica
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_locks x
    ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation = '{schema_text}.events_global_sequence_seq'::regclass
ORDER BY age DESC NULLS LAST

-- By virtualtransaction alone: a prepared transaction has no pid.
SELECT coalesce(array_agg(l.virtualtransaction), '{}'), {life}
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation = '{schema_text}.events_global_sequence_seq'::regclass

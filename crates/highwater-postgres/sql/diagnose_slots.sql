-- Replication slots that nobody reads from, and how much of the log of changes is kept for them.
SELECT s.slot_name::text AS name,
    pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
        s.restart_lsn)::bigint AS bytes
FROM pg_replication_slots s
WHERE NOT s.active AND s.restart_lsn IS NOT NULL
ORDER BY s.slot_name

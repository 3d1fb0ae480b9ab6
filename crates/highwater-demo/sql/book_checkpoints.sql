-- The end of the log, and the checkpoint of whoever is furthest behind.
SELECT
    (SELECT CAST(coalesce(max(global_sequence), 0) AS bigint) FROM events),
    (SELECT CAST(coalesce(min(last_global_sequence), 0) AS bigint) FROM event_bus_checkpoints)

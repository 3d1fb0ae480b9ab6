-- The four subscribers, and those whose checkpoint is the end of the log: neither before nor beyond it.
SELECT CAST(4 AS bigint), count(*)
FROM event_bus_checkpoints
WHERE subscriber_id IN ('projection:emails', 'projection:orders', 'projection:revenue', 'saga:fulfilment')
  AND last_global_sequence = (SELECT max(global_sequence) FROM events)

SELECT CAST(0 AS bigint), count(*)
FROM event_bus_checkpoints
WHERE subscriber_id NOT IN ('projection:emails', 'projection:orders', 'projection:revenue', 'saga:fulfilment')

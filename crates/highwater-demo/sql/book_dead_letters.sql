SELECT CAST(0 AS bigint), count(*) FROM event_bus_dlq WHERE state <> 'replayed'

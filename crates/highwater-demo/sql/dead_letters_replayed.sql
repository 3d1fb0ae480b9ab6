SELECT count(*) FROM event_bus_dlq WHERE state = 'replayed'

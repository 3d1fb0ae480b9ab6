SELECT EXISTS (SELECT 1 FROM events), EXISTS (SELECT 1 FROM event_bus_checkpoints), EXISTS (SELECT 1 FROM event_bus_dlq),
    EXISTS (SELECT 1 FROM event_bus_requests)

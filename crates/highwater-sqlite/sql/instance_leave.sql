DELETE FROM event_bus_instances WHERE session = $1

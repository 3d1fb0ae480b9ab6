SELECT session, instance_id, host, pid, label, wants FROM event_bus_instances ORDER BY session

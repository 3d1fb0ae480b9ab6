SELECT subscriber_id FROM event_bus_pauses WHERE subscriber_id IN (SELECT i.value FROM json_each($1) i)

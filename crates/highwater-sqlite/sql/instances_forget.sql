-- Instances that went without saying so. One that was just opened may not be seen by its lock yet.
DELETE FROM event_bus_instances
WHERE since < $2 AND hex(session) IN (SELECT value FROM json_each($1))

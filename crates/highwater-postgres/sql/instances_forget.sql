-- Instances that went without saying so. One that was just opened may not be seen by its lock yet.
DELETE FROM {schema}.event_bus_instances i WHERE i.session = ANY ($1) AND i.since < now() - interval '10 seconds'

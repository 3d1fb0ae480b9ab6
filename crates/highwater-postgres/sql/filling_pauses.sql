INSERT INTO {schema}.event_bus_pauses (subscriber_id) SELECT unnest($1::text[])

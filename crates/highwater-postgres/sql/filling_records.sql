INSERT INTO {schema}.events ({event})
OVERRIDING SYSTEM VALUE
SELECT * FROM unnest({event_arrays})

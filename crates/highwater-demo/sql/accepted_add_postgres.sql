-- [[order, customer, cents], …]
INSERT INTO demo_accepted (order_id, customer, cents)
SELECT CAST(o.value ->> 0 AS uuid), CAST(o.value ->> 1 AS bigint), CAST(o.value ->> 2 AS bigint)
FROM json_array_elements(CAST($1 AS json)) o

-- [[order, customer, cents], …]
INSERT INTO demo_accepted (order_id, customer, cents)
SELECT unhex(o.value ->> 0, '-'), o.value ->> 1, o.value ->> 2
FROM json_each($1) o

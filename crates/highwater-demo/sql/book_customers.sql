-- Customers who paid, and those whose row has the sum and the number of their payments.
SELECT
    (SELECT count(DISTINCT CAST(data ->> 'customer' AS bigint)) FROM events WHERE event_type = 'Paid'),
    (SELECT count(*)
     FROM demo_revenue r
     JOIN (SELECT CAST(data ->> 'customer' AS bigint) AS customer,
               sum(CAST(data ->> 'cents' AS bigint)) AS cents,
               count(*) AS payments
           FROM events WHERE event_type = 'Paid' GROUP BY 1) e ON e.customer = r.customer
     WHERE r.cents = e.cents AND r.payments = e.payments)

-- Orders, and those whose e-mail went to the customer's address.
SELECT
    (SELECT count(*) FROM events WHERE event_type = 'Placed'),
    (SELECT count(*)
     FROM events e
     JOIN demo_emails m ON m.event_id = e.id
     JOIN demo_customers c ON c.customer = CAST(e.data ->> 'customer' AS bigint) AND c.address = m.address
     WHERE e.event_type = 'Placed')

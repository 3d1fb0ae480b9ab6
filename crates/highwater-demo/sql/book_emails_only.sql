-- All e-mails but those for an order, from the log to the rows as with orders.
SELECT
    CAST(0 AS bigint),
    (SELECT count(*) FROM demo_emails)
    - (SELECT count(*) FROM events e JOIN demo_emails m ON m.event_id = e.id WHERE e.event_type = 'Placed')

-- Who handled something when, over all subscribers. The saga's answers tell that of themselves.
CREATE VIEW demo_work AS
SELECT subscriber_id, instance, events, handled_at FROM demo_handled
UNION ALL
SELECT 'projection:emails', instance, 1, sent_at FROM demo_emails
UNION ALL
SELECT 'saga:fulfilment', CAST(metadata ->> 'instance' AS bigint), 1, CAST(metadata ->> 'handled_at' AS bigint)
FROM events
WHERE event_type <> 'Placed'

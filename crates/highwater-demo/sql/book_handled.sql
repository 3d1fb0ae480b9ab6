-- Events that were to be handled, and that were, by the two projections that handle each exactly once.
SELECT
    (SELECT count(*) FROM events) + (SELECT count(*) FROM events WHERE event_type = 'Paid'),
    (SELECT CAST(coalesce(sum(events), 0) AS bigint) FROM demo_handled)

SELECT
    (SELECT count(*) FROM events WHERE event_type = 'Paid'),
    (SELECT CAST(coalesce(sum(events), 0) AS bigint) FROM demo_handled WHERE subscriber_id = 'projection:revenue')

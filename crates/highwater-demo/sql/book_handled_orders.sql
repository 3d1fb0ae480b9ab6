-- Everything, and what was handled in the name of any subscriber but the projection that the other book is about.
SELECT
    (SELECT count(*) FROM events),
    (SELECT CAST(coalesce(sum(events), 0) AS bigint) FROM demo_handled WHERE subscriber_id <> 'projection:revenue')

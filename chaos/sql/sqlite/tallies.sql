-- $1: the subscriber; $2: as for the rows. Of a group, SQLite takes the other columns from the row with the highest key.
INSERT INTO chaos_tallies (subscriber_id, stream_id, events, versions, last_version)
SELECT subscriber_id, stream_id, events, versions, last_version FROM (
    SELECT $1 AS subscriber_id, event.value ->> 1 AS stream_id, count(*) AS events,
        sum(event.value ->> 2) AS versions, event.value ->> 2 AS last_version, max(event.key)
    FROM json_each($2) AS event
    GROUP BY event.value ->> 1
)
WHERE true
ON CONFLICT (subscriber_id, stream_id) DO UPDATE
SET events = events + excluded.events, versions = versions + excluded.versions, last_version = excluded.last_version

-- $1: the subscriber; $2: as for the rows.
INSERT INTO public.chaos_tallies (subscriber_id, stream_id, events, versions, last_version)
SELECT $1, (event.value ->> 1)::uuid, count(*), sum((event.value ->> 2)::bigint),
    (array_agg((event.value ->> 2)::bigint ORDER BY event.place DESC))[1]
FROM json_array_elements($2::json) WITH ORDINALITY AS event (value, place)
GROUP BY 2
ON CONFLICT (subscriber_id, stream_id) DO UPDATE
SET events = chaos_tallies.events + excluded.events, versions = chaos_tallies.versions + excluded.versions,
    last_version = excluded.last_version

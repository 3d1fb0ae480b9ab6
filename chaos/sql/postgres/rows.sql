-- $1: the subscriber; $2: a JSON array of [global_sequence, stream_id, stream_version]; $3: who writes.
INSERT INTO public.chaos_rows (subscriber_id, global_sequence, term, written_by)
SELECT $1, (event.value ->> 0)::bigint, checkpoint.term, $3
FROM highwater.event_bus_checkpoints checkpoint,
    json_array_elements($2::json) WITH ORDINALITY AS event (value, place)
WHERE checkpoint.subscriber_id = $1
ORDER BY event.place

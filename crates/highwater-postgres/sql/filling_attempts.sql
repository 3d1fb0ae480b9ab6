-- In the order they came in: their ids say so.
INSERT INTO {schema}.event_bus_dlq_attempts (dead_letter_id, attempted_at, attempted_by, outcome, detail)
SELECT a.dead_letter_id, a.at, a.by, a.outcome, a.detail
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[])
    WITH ORDINALITY AS a (dead_letter_id, at, by, outcome, detail, n)
ORDER BY a.n

-- Nothing depends on it, so it waits neither for the disk nor for long. In one order, so that nobody waits in a circle.
WITH haste AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '1000', true)
)
INSERT INTO {schema}.event_bus_reports AS r (subscriber_id, term, state, global_sequence, rate, failing, failures, next_at,
    reason, last_error, push_degraded, reads, reported_at)
SELECT n.* FROM haste, unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::double precision[], $6::bigint[],
    $7::bigint[], $8::timestamptz[], $9::text[], $10::text[], $11::text[], $12::text[],
    $13::timestamptz[]) AS n (subscriber_id)
ORDER BY n.subscriber_id
ON CONFLICT (subscriber_id) DO UPDATE
SET term = excluded.term, state = excluded.state, global_sequence = excluded.global_sequence, rate = excluded.rate,
    failing = excluded.failing, failures = excluded.failures, next_at = excluded.next_at, reason = excluded.reason,
    last_error = excluded.last_error, push_degraded = excluded.push_degraded, reads = excluded.reads,
    reported_at = excluded.reported_at
WHERE r.term <= excluded.term

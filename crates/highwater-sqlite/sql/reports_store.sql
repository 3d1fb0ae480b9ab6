INSERT INTO event_bus_reports (subscriber_id, term, state, global_sequence, rate, failing, failures, next_at, reason,
    last_error, push_degraded, reads, reported_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (subscriber_id) DO UPDATE
SET term = excluded.term, state = excluded.state, global_sequence = excluded.global_sequence, rate = excluded.rate,
    failing = excluded.failing, failures = excluded.failures, next_at = excluded.next_at, reason = excluded.reason,
    last_error = excluded.last_error, push_degraded = excluded.push_degraded, reads = excluded.reads,
    reported_at = excluded.reported_at
WHERE term <= excluded.term

SELECT subscriber_id, term, state, global_sequence, rate, failing, failures, next_at, reason, last_error, push_degraded,
    reads, reported_at
FROM {schema}.event_bus_reports ORDER BY subscriber_id COLLATE "C"

-- $1 events in streams of ten, with ids that follow one another: the indexes grow at their ends.
INSERT INTO highwater.events (id, stream_id, stream_version, event_type, data)
SELECT lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n / 10), 32, '0')::uuid, n % 10 + 1, $2, $3::json
FROM generate_series(0, $1 - 1) n

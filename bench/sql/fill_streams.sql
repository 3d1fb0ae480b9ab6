-- The events from $1 to $2, that one not included, in streams of ten whose ids are scattered, as those of applications are.
INSERT INTO highwater.events (id, stream_id, stream_version, event_type, data)
SELECT lpad(to_hex(n), 32, '0')::uuid, md5((n / 10)::text)::uuid, n % 10 + 1, $3, $4::json
FROM generate_series($1::bigint, $2::bigint - 1) n

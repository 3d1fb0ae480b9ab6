INSERT INTO raw.events_indexed (stream_version, created_at, id, stream_id, event_type, data, metadata)
SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::uuid[], $4::uuid[], $5::text[], $6::json[], $7::json[])

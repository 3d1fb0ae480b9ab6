-- Terms are new ones: nobody leads here.
INSERT INTO {schema}.event_bus_checkpoints
    (subscriber_id, last_global_sequence, last_event_id, updated_at, term, nonce)
SELECT c.subscriber_id, c.position, c.event_id, c.updated_at, nextval('{schema_text}.event_bus_terms'),
    gen_random_uuid()
FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::timestamptz[])
    AS c (subscriber_id, position, event_id, updated_at)

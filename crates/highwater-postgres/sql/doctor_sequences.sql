-- How far the sequences are; NULL where the role may not see it, or where nothing was drawn yet. $1 is the schema.
SELECT s.sequencename::text AS name, s.last_value, s.max_value FROM pg_sequences s
WHERE s.schemaname = $1 AND s.sequencename IN ('events_global_sequence_seq', 'event_bus_terms')
ORDER BY s.sequencename COLLATE "C" DESC

-- How far the sequences are; NULL where the role may not see it, or where nothing was drawn yet. The log's is read as a table:
-- pg_sequences takes the lock by which readers know writers, and would hold them back.
SELECT 'events_global_sequence_seq' AS name, q.last_value, s.seqmax AS max_value
FROM {schema}.events_global_sequence_seq q
JOIN pg_sequence s ON s.seqrelid = '{schema_text}.events_global_sequence_seq'::regclass
UNION ALL
SELECT t.sequencename::text, t.last_value, t.max_value FROM pg_sequences t
WHERE t.schemaname = $1 AND t.sequencename = 'event_bus_terms'

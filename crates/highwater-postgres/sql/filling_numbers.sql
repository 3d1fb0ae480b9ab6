-- Before the rows, as with every append: readers wait for the holder of the sequence's lock. Never backwards.
SELECT setval('{schema_text}.events_global_sequence_seq', greatest(s.last_value, $1))
FROM {schema}.events_global_sequence_seq s

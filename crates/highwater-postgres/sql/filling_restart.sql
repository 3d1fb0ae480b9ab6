-- The sequence's file is another one then, and so is the life of the server: what readers have learnt of the numbers that are given
-- to other events by the next filling is void. Never backwards.
DO $highwater$
BEGIN
    EXECUTE format('ALTER SEQUENCE {schema_text}.events_global_sequence_seq RESTART WITH %s', (
        SELECT CASE WHEN s.is_called THEN s.last_value + 1 ELSE s.last_value END FROM {schema}.events_global_sequence_seq s));
END
$highwater$

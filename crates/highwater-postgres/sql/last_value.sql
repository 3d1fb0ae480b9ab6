SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END, {life} FROM {schema}.events_global_sequence_seq

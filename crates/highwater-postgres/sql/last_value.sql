SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {schema}.events_global_sequence_seq

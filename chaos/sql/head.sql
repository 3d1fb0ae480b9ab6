SELECT max(global_sequence) FROM {schema}events

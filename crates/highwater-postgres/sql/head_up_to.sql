SELECT coalesce(max(global_sequence), 0), {life} FROM {schema}.events WHERE global_sequence <= $1

SELECT count(*) FROM {schema}.events WHERE global_sequence <= $1

SELECT count(*) FROM events WHERE global_sequence <= $1

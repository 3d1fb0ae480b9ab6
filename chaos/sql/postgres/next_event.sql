-- The first event after $1 that can be seen, whatever may still come before it.
SELECT min(global_sequence) FROM highwater.events WHERE global_sequence > $1

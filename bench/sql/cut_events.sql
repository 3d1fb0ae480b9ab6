DELETE FROM highwater.events WHERE global_sequence > $1

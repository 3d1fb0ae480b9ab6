-- A checkpoint by itself, as an engine would write it that does not know better.
UPDATE highwater.event_bus_checkpoints SET last_global_sequence = $2
WHERE subscriber_id = $1 AND last_global_sequence < $2

-- How far the order is known to be settled, whatever is open now: the highest of what readers have proved, of numbers that come
-- from this very sequence.
SELECT coalesce(max(c.settled_to), 0), {life} FROM {schema}.event_bus_checkpoints c WHERE c.settled_in = {sequence}

-- How far the order is known to be settled, whatever is open now: the highest of what readers have proved, of numbers that come
-- from this very sequence.
SELECT coalesce(max(p.settled_to), 0), {life} FROM (
    SELECT c.settled_to FROM {schema}.event_bus_checkpoints c WHERE c.settled_in = {sequence}
    UNION ALL
    SELECT s.settled_to FROM {schema}.settled s WHERE s.settled_in = {sequence}
) p

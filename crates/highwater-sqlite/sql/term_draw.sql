-- Higher than every term there is, even if this row was set back by hand.
UPDATE event_bus_terms SET last = 1 + max(last, (SELECT coalesce(max(c.term), 0) FROM event_bus_checkpoints c))
RETURNING last

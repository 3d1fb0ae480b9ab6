-- Higher than every term there is, even if this row was set back by hand. What nobody can count to was put there by hand, and
-- is overwritten by the new leader.
UPDATE event_bus_terms SET last = 1 + max(last,
    (SELECT coalesce(max(c.term), 0) FROM event_bus_checkpoints c WHERE c.term < 4611686018427387904))
RETURNING last

SELECT coalesce(max(global_sequence), 0) FROM events

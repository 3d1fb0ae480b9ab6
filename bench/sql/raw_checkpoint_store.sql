INSERT INTO raw.checkpoints VALUES ($1, $2)
ON CONFLICT (subscriber_id) DO UPDATE SET last_global_sequence = excluded.last_global_sequence

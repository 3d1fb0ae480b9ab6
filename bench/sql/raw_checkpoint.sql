UPDATE raw.checkpoints SET last_global_sequence = $2 WHERE subscriber_id = $1

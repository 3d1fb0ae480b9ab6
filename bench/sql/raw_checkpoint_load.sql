SELECT last_global_sequence FROM raw.checkpoints WHERE subscriber_id = $1

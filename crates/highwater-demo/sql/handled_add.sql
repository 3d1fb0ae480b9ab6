INSERT INTO demo_handled (subscriber_id, instance, events, handled_at) VALUES ($1, $2, $3, $4)

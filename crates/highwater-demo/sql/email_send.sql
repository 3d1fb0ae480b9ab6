INSERT INTO demo_emails (event_id, address, asked, instance, sent_at) VALUES ($1, $2, 1, $3, $4)
ON CONFLICT (event_id) DO UPDATE SET asked = demo_emails.asked + 1

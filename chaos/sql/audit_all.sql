SELECT n, subscriber_id, term, global_sequence, written_by FROM chaos_audit ORDER BY n

SELECT n, subscriber_id, global_sequence, term, written_by FROM chaos_rows ORDER BY n

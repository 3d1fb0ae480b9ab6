DELETE FROM chaos_rows WHERE subscriber_id = $1

DELETE FROM chaos_tallies WHERE subscriber_id = $1

SELECT subscriber_id, CAST(stream_id AS text), events, versions, last_version FROM chaos_tallies ORDER BY 1, 2

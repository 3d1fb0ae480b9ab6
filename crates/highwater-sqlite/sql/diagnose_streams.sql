-- Streams with holes: versions begin at 1, and none is there twice.
SELECT lower(hex(stream_id)), count(*), max(stream_version) FROM events
GROUP BY stream_id HAVING count(*) <> max(stream_version)
LIMIT 5

SELECT CAST($1 AS bigint), count(*) FROM events WHERE event_type = 'Placed'

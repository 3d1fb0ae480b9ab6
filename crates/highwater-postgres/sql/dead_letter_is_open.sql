SELECT EXISTS (
    SELECT FROM {schema}.event_bus_dlq WHERE id = $1 AND subscriber_id::text = $2 AND state IN ('dead', 'parked'))

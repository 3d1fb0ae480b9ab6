-- A reset raises the term without a change of leader.
UPDATE {schema}.event_bus_leaders SET term = $2, nonce = $3 WHERE subscriber_id::text = $1 AND nonce = $4

SELECT ARRAY(
    SELECT pg_advisory_unlock(k.high, k.low) FROM unnest($1::integer[], $2::integer[]) k (high, low))

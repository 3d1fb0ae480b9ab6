SELECT coalesce(sum(orders), 0)::bigint, coalesce(sum(amount), 0)::bigint FROM raw.customers

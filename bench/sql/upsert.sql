INSERT INTO raw.customers AS c (customer, orders, amount) VALUES ($1, 1, $2)
ON CONFLICT (customer) DO UPDATE SET orders = c.orders + 1, amount = c.amount + excluded.amount

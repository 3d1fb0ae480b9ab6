INSERT INTO demo_customers (customer, address) VALUES ($1, $2)

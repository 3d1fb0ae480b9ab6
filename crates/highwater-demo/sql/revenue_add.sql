INSERT INTO demo_revenue (customer, cents, payments) VALUES ($1, $2, 1)
ON CONFLICT (customer) DO UPDATE SET cents = demo_revenue.cents + excluded.cents, payments = demo_revenue.payments + 1

SELECT address FROM demo_customers WHERE customer = $1

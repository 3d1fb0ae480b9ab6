UPDATE demo_revenue SET cents = cents + 1 WHERE customer = (SELECT min(customer) FROM demo_revenue)

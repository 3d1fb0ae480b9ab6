UPDATE demo_customers SET address = replace(address, ' at ', '@') WHERE address LIKE '% at %'

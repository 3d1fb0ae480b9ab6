SELECT age(d.datfrozenxid)::bigint FROM pg_database d WHERE d.datname = current_database()

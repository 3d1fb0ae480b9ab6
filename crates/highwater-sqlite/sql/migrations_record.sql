INSERT INTO highwater_migrations (version, name, oldest, applied_at) VALUES ($1, $2, $3, $4)

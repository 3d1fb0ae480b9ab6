INSERT INTO {schema}.migrations (version, name, oldest) VALUES ($1, $2, $3)

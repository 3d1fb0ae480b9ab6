INSERT INTO {schema}.filling (source) VALUES ($1)

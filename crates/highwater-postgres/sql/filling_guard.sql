SELECT {schema}.filling_guard($1)

SELECT source, since, filled_to FROM {schema}.filling

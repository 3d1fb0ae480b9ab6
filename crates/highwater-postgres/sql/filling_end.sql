DELETE FROM {schema}.filling

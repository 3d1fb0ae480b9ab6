UPDATE {schema}.filling SET open = true WHERE source = $1

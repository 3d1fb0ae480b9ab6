UPDATE {schema}.filling SET open = false, filled_to = $1

SELECT heads, held, sequences FROM {schema}.append_group($1, $2, $4, $5, $6, {own:7}, $3)

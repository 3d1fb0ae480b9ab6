SELECT {schema}.append_one($1, $2, {own:4}, $3)

SELECT {schema}.append_new($1, $2, {own:4}, $3)

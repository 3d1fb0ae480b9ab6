SELECT source, since, filled_to FROM filling

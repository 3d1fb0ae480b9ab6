SELECT {schema}.life()

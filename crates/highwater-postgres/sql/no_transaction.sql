-- Whether this runs by itself, and in no transaction that was begun before. As a simple query, which is one message.
SELECT now() = statement_timestamp()

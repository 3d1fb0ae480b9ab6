-- Bytes of the write-ahead log, from its beginning.
SELECT (pg_current_wal_insert_lsn() - '0/0')::float8

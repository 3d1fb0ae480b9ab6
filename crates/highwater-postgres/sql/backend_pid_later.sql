-- Long enough for another connection to ask meanwhile.
SELECT pg_backend_pid() FROM pg_sleep(0.02::double precision)

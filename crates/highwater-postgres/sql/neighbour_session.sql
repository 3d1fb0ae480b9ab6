-- For the connection that waits for another instance's end: a role's own limit would end it again and again.
SELECT set_config('statement_timeout', '0', false)

-- For transactions whose statements may be given up: the server looks whether the client is still there and ends them if
-- not. Not every server can; the error of one that cannot is logged, and it is left as it is.
SELECT set_config('client_connection_check_interval', '1000', false)

-- For transactions whose statements may be given up: the server looks whether the client is still there and ends them if
-- not. Not every server can; one that does not know the setting is left as it is.
SELECT set_config(s.name, '1000', false) FROM pg_settings s WHERE s.name = 'client_connection_check_interval'

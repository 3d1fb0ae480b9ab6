-- An error where events could not be read as they were written.
DO $highwater$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002',
            MESSAGE = 'this database holds text as ' || current_setting('server_encoding') || ' and not as UTF-8: use one that was '
                || 'made by CREATE DATABASE … ENCODING ''UTF8'' TEMPLATE template0';
    END IF;
END
$highwater$

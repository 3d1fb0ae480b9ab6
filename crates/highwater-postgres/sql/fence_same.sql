-- See fence_lock.
SELECT current_setting('highwater.fence', true) IS NOT DISTINCT FROM pg_current_xact_id_if_assigned()::text

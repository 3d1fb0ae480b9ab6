-- Nothing that has to be kept, so it waits for no replica: the first reader of a new life draws its number, and all others wait
-- for that one.
SELECT set_config('synchronous_commit', 'off', true), {schema}.life()

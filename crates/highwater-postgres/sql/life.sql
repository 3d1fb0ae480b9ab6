-- Nothing that has to be kept, so it waits for no replica: every reader of a new life waits for whoever draws its number.
SELECT set_config('synchronous_commit', 'off', true), {schema}.life()

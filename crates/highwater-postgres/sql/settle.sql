-- Nothing that has to be kept, so it waits for no replica and no disk. NULL where another session is at it.
SELECT {schema}.settle(), {life}, set_config('synchronous_commit', 'off', true)

-- Which layout this is, and the oldest that a library may know and still work with it. The second column may not be there yet.
SELECT coalesce(max(m.version), 0), coalesce(max(coalesce((to_jsonb(m) ->> 'oldest')::integer, m.version)), 0)
FROM {schema}.migrations m

-- The last $1 events: after which number they come, how many they are, and the sum of their amounts and versions.
SELECT min(global_sequence) - 1, count(*), sum((data->>'amount')::bigint + stream_version)::bigint
FROM (SELECT global_sequence, stream_version, data FROM highwater.events ORDER BY global_sequence DESC LIMIT $1) e

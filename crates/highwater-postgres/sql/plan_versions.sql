-- A stream that keeps a table from being adopted; as in migrations/0001_adopt.sql.
SELECT e.stream_id FROM {schema}.events e
GROUP BY e.stream_id
HAVING min(e.stream_version) <> 1 OR max(e.stream_version) <> count(*) OR count(DISTINCT e.stream_version) <> count(*)
LIMIT 1

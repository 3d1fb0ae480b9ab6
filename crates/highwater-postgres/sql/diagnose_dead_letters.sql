-- Dead letters that wait for an operator, and what nobody needs any more. $1: resolved or finished before.
SELECT
    (SELECT count(*) FROM {schema}.event_bus_dlq d WHERE d.state = 'dead') AS dead,
    (SELECT count(*) FROM {schema}.event_bus_dlq d WHERE d.state = 'parked') AS parked,
    (SELECT count(*) FROM {schema}.event_bus_dlq d WHERE d.state NOT IN ('dead', 'parked') AND d.resolved_at < $1)
        AS resolved,
    (SELECT count(*) FROM {schema}.event_bus_requests r WHERE r.finished_at < $1) AS finished

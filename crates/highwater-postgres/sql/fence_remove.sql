-- Everything that is stored under the name, if the fence holds. Dead letters have been archived before.
WITH gone AS (
    DELETE FROM {schema}.event_bus_checkpoints
    WHERE subscriber_id::text = $1 AND term = $2 AND nonce = $3
        AND current_setting('highwater.fence', true) = pg_current_xact_id_if_assigned()::text AND $4 = {life}
    RETURNING subscriber_id
),
leader AS (DELETE FROM {schema}.event_bus_leaders l USING gone g WHERE l.subscriber_id::text = g.subscriber_id::text),
pause AS (DELETE FROM {schema}.event_bus_pauses p USING gone g WHERE p.subscriber_id::text = g.subscriber_id::text),
report AS (DELETE FROM {schema}.event_bus_reports r USING gone g WHERE r.subscriber_id::text = g.subscriber_id::text),
requests AS (DELETE FROM {schema}.event_bus_requests q USING gone g WHERE q.subscriber_id::text = g.subscriber_id::text)
SELECT g.subscriber_id FROM gone g

-- Rows that nothing of ours has written: of what kind, which, and what is wrong with it. A few of each.
WITH
said (kind, which, wrong) AS (
    SELECT 'event', global_sequence, 'its number is not positive, so no reader is given it'
    FROM events WHERE global_sequence < 1
    UNION ALL
    SELECT 'event', global_sequence, 'its id or its stream''s is not 16 bytes'
    FROM events WHERE (typeof(id), typeof(stream_id), length(id), length(stream_id)) IS NOT ('blob', 'blob', 16, 16)
    UNION ALL
    SELECT 'event', global_sequence, 'its version is no positive number'
    FROM events WHERE typeof(stream_version) <> 'integer' OR stream_version < 1
    UNION ALL
    SELECT 'event', global_sequence, 'its type is no text of 1 to 255 bytes'
    FROM events WHERE typeof(event_type) <> 'text' OR length(CAST(event_type AS BLOB)) NOT BETWEEN 1 AND 255
    UNION ALL
    SELECT 'event', global_sequence, 'its schema version is none'
    FROM events WHERE typeof(schema_version) <> 'integer' OR schema_version NOT BETWEEN 1 AND 2147483647
    UNION ALL
    SELECT 'event', global_sequence, 'its data is not JSON'
    FROM events WHERE typeof(data) <> 'text' OR instr(CAST(data AS BLOB), x'00') OR NOT json_valid(data)
    UNION ALL
    SELECT 'event', global_sequence, 'its metadata is no JSON object'
    FROM events WHERE typeof(metadata) <> 'text' OR instr(CAST(metadata AS BLOB), x'00') OR NOT json_valid(metadata)
        OR iif(json_valid(metadata), json_type(metadata), '') <> 'object'
    UNION ALL
    SELECT 'event', global_sequence, 'its time is none that can be shown'
    FROM events WHERE typeof(created_at) <> 'integer' OR abs(created_at / 2) > 4100000000000000000
    UNION ALL
    SELECT 'event', max(global_sequence), 'its id is that of ' || (count(*) - 1) || ' others as well'
    FROM events GROUP BY id HAVING count(*) > 1
    UNION ALL
    SELECT 'stream', lower(hex(stream_id)), 'some of its versions are there twice'
    FROM events GROUP BY stream_id HAVING count(DISTINCT stream_version) <> count(*)
    UNION ALL
    SELECT 'stream', lower(hex(stream_id)), 'version ' || stream_version || ' stands before the one before it in the log'
    FROM (
        SELECT stream_id, stream_version, global_sequence,
            lag(global_sequence) OVER (PARTITION BY stream_id ORDER BY stream_version, global_sequence) AS before
        FROM events
    ) WHERE before > global_sequence
    UNION ALL
    SELECT 'checkpoint', quote(subscriber_id), 'a subscriber''s name has 1 to 255 bytes, and none is NUL'
    FROM event_bus_checkpoints
    WHERE typeof(subscriber_id) <> 'text' OR length(CAST(subscriber_id AS BLOB)) NOT BETWEEN 1 AND 255
        OR instr(CAST(subscriber_id AS BLOB), x'00')
    UNION ALL
    SELECT 'checkpoint', quote(subscriber_id), 'it stands at ' || quote(last_global_sequence) || ', which is no position'
    FROM event_bus_checkpoints WHERE typeof(last_global_sequence) <> 'integer' OR last_global_sequence < 0
    UNION ALL
    SELECT 'checkpoint', quote(subscriber_id), 'its term ' || quote(term) || ' was never given'
    FROM event_bus_checkpoints
    WHERE typeof(term) <> 'integer' OR term < 0 OR term > (SELECT max(last) FROM event_bus_terms)
    UNION ALL
    SELECT 'checkpoint', quote(subscriber_id), 'it has no usable nonce or time, or the id of no event'
    FROM event_bus_checkpoints
    WHERE (typeof(nonce), length(nonce), typeof(updated_at)) IS NOT ('blob', 16, 'integer')
        OR last_event_id IS NOT NULL AND (typeof(last_event_id), length(last_event_id)) IS NOT ('blob', 16)
    UNION ALL
    SELECT 'term', 'counter', 'it stands at ' || coalesce(quote(max(last)), 'nothing') || ', and cannot be counted on from'
    FROM event_bus_terms HAVING count(*) <> 1 OR typeof(max(last)) <> 'integer' OR max(last) NOT BETWEEN 0 AND 4611686018427387903
    UNION ALL
    SELECT 'dead letter', lower(hex(id)), 'its state ' || quote(state) || ' is not known'
    FROM event_bus_dlq WHERE state NOT IN ('dead', 'parked', 'replayed', 'discarded', 'archived')
    UNION ALL
    SELECT 'dead letter', lower(hex(id)), 'its event ' || lower(hex(event_id)) || ' is not in the log'
    FROM event_bus_dlq d
    WHERE state IN ('dead', 'parked') AND NOT EXISTS (SELECT 1 FROM events e WHERE e.id = d.event_id)
    UNION ALL
    SELECT 'request', lower(hex(id)), 'its kind ' || quote(kind) || ' is not known, or lacks a detail'
    FROM event_bus_requests WHERE finished_at IS NULL AND NOT CASE kind
        WHEN 'replay' THEN dead_letter_id IS NOT NULL
        WHEN 'replay_stream' THEN stream_id IS NOT NULL
        WHEN 'replay_all' THEN 1
        WHEN 'discard' THEN dead_letter_id IS NOT NULL AND reason IS NOT NULL
        WHEN 'rebuild' THEN 1
        WHEN 'reread' THEN 1
        ELSE 0
    END
    UNION ALL
    SELECT 'request', lower(hex(id)), 'its time is none that can be shown'
    FROM event_bus_requests WHERE requested_at NOT BETWEEN -62135596800000000 AND 253402300799999999
    UNION ALL
    SELECT 'request', lower(hex(id)), 'an id in it does not have 16 bytes'
    FROM event_bus_requests
    WHERE length(id) <> 16 OR length(dead_letter_id) <> 16 OR length(stream_id) <> 16
    UNION ALL
    SELECT 'request', lower(hex(id)), 'what came of it is counted below 0'
    FROM event_bus_requests WHERE done < 0 OR failed < 0
    UNION ALL
    SELECT 'report', quote(subscriber_id), 'its state ' || quote(state) || ' is not known, or a number of it is none'
    FROM event_bus_reports
    WHERE state NOT IN ('catching_up', 'live', 'retrying', 'disconnected', 'paused', 'halted', 'stopped')
        OR term < 0 OR global_sequence < 0
)
SELECT kind, CAST(which AS TEXT), wrong FROM (
    SELECT kind, which, wrong, row_number() OVER (PARTITION BY kind ORDER BY which, wrong) AS n FROM said
) WHERE n <= 5 ORDER BY kind, CAST(which AS TEXT), wrong

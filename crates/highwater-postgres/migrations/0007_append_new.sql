-- Appending to streams that do not exist yet, which is what many events at a time mostly are: nothing to look up, nothing
-- to lock, versions known beforehand. Whether the streams really do not exist, the unique index tells; then nothing is
-- stored, and `append_group` says why.
--
-- `json` comes as `json`, so that it is parsed once and copied once. `unnest` stands in the list of columns because there it
-- gives one row after the other; in FROM each array would be written down first. Numbers are drawn before the rows are made:
-- RETURNING would have them all written down once more. Returns the numbers, in the order of the events.
--
-- Everything is named in full because this function has its owner's rights and sets no search_path; see `append_one`.
CREATE FUNCTION {schema}.append_new(
    stream_ids uuid[], stream_versions bigint[], ids uuid[], event_types text[], schema_versions integer[], data json[],
    metadata json[], created_at timestamptz[])
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
AS $highwater$
DECLARE
    numbers bigint[];
BEGIN
    numbers := ARRAY(
        SELECT pg_catalog.nextval('{schema_text}.events_global_sequence_seq'::pg_catalog.regclass)
        FROM pg_catalog.generate_subscripts(ids, 1));
    INSERT INTO {schema}.events
        (global_sequence, stream_id, stream_version, id, event_type, schema_version, data, metadata, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT pg_catalog.unnest(numbers), pg_catalog.unnest(stream_ids), pg_catalog.unnest(stream_versions),
        pg_catalog.unnest(ids), pg_catalog.unnest(event_types), pg_catalog.unnest(schema_versions),
        pg_catalog.unnest(data), pg_catalog.unnest(metadata), pg_catalog.unnest(created_at);
    RETURN numbers;
END
$highwater$;

REVOKE ALL ON FUNCTION {schema}.append_new FROM PUBLIC;

-- Who may append may go on appending.
DO $highwater$
DECLARE
    writer record;
BEGIN
    FOR writer IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS name, a.is_grantable
        FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
        WHERE p.oid = '{schema_text}.append_group'::regproc AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION {schema_text}.append_new TO %s %s', writer.name,
            CASE WHEN writer.is_grantable THEN 'WITH GRANT OPTION' END);
    END LOOP;
END
$highwater$;

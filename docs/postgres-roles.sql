-- Roles for Highwater on PostgreSQL. Run as the owner of the schema, after initialize(), with the schema's name in place
-- of "highwater" if yours is another. Then: GRANT highwater_writer TO my_application.

CREATE ROLE highwater_reader NOLOGIN;
GRANT USAGE ON SCHEMA highwater TO highwater_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA highwater TO highwater_reader;
-- Readers look at where the sequence stands; they cannot draw from it.
GRANT SELECT ON SEQUENCE highwater.events_global_sequence_seq TO highwater_reader;

-- Writers append through the functions. They have no INSERT, UPDATE or DELETE on the table.
CREATE ROLE highwater_writer NOLOGIN IN ROLE highwater_reader;
GRANT EXECUTE ON FUNCTION highwater.append, highwater.append_one, highwater.append_group TO highwater_writer;

-- Operators also see what other roles' transactions run, and since when.
CREATE ROLE highwater_operator NOLOGIN IN ROLE highwater_reader, pg_read_all_stats;

-- Roles for Highwater on PostgreSQL. Run as the owner of the schema, after initialize(), with the schema's name in place
-- of "highwater" if yours is another. Then: GRANT highwater_writer TO my_application.

CREATE ROLE highwater_reader NOLOGIN;
GRANT USAGE ON SCHEMA highwater TO highwater_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA highwater TO highwater_reader;
-- Readers look at where the sequence stands; they cannot draw from it.
GRANT SELECT ON SEQUENCE highwater.events_global_sequence_seq TO highwater_reader;

-- Writers append through the functions. They have no INSERT, UPDATE or DELETE on the table.
CREATE ROLE highwater_writer NOLOGIN IN ROLE highwater_reader;
GRANT EXECUTE ON FUNCTION highwater.append, highwater.append_one, highwater.append_group, highwater.append_new
    TO highwater_writer;

-- Subscribers read and keep the books of delivery. What their handlers write besides is granted apart, and so is appending.
CREATE ROLE highwater_subscriber NOLOGIN IN ROLE highwater_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON highwater.event_bus_checkpoints, highwater.event_bus_pauses, highwater.event_bus_dlq,
    highwater.event_bus_dlq_attempts, highwater.event_bus_requests, highwater.event_bus_leaders,
    highwater.event_bus_instances, highwater.event_bus_reports TO highwater_subscriber;
GRANT USAGE ON SEQUENCE highwater.event_bus_terms TO highwater_subscriber;

-- Operators also see what other roles' transactions run, and since when.
CREATE ROLE highwater_operator NOLOGIN IN ROLE highwater_reader, pg_read_all_stats;
-- They pause subscribers and ask for replays; whoever processes for a subscriber does what is asked.
GRANT INSERT ON highwater.event_bus_requests TO highwater_operator;
GRANT INSERT, DELETE ON highwater.event_bus_pauses TO highwater_operator;

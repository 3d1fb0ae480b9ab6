-- Roles for Highwater on PostgreSQL. Run as the owner of the schema that may also create roles (CREATEROLE), after initialize(),
-- with the schema's name in place of "highwater" if yours is another. Then: GRANT highwater_writer TO my_application.

-- Nobody else gets at it.
REVOKE ALL ON SCHEMA highwater FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA highwater FROM PUBLIC;

CREATE ROLE highwater_reader NOLOGIN;
GRANT USAGE ON SCHEMA highwater TO highwater_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA highwater TO highwater_reader;
-- Which life of the server it is, and how far the order is settled: the function proves that itself. Every role may ask, unless
-- default privileges of yours say otherwise.
GRANT EXECUTE ON FUNCTION highwater.life, highwater.insist_on_life, highwater.settle TO highwater_reader;
-- Readers look at where the sequence stands; they cannot draw from it. Who looks through pg_sequences rather than by SELECT
-- FROM the sequence, and leaves that transaction open, holds all readers back as a writer does.
GRANT SELECT ON SEQUENCE highwater.events_global_sequence_seq TO highwater_reader;

-- Writers append through the functions, which check what they are asked: a role that may call them can neither make a hole
-- in a stream nor store what no reader gets past. What is in the JSON of an event the library checks, and for plain SQL `append`;
-- who calls the other three by itself can store JSON that readers cannot decode, so that it becomes a dead letter, and that keeps
-- the store from being copied. They have no INSERT, UPDATE or DELETE on the table: who has INSERT can make a hole.
CREATE ROLE highwater_writer NOLOGIN IN ROLE highwater_reader;
GRANT EXECUTE ON FUNCTION highwater.append, highwater.append_one, highwater.append_group, highwater.append_new
    TO highwater_writer;

-- Subscribers read and keep the books of delivery. What their handlers write besides is granted apart, and so is appending.
CREATE ROLE highwater_subscriber NOLOGIN IN ROLE highwater_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON highwater.event_bus_checkpoints, highwater.event_bus_pauses, highwater.event_bus_dlq,
    highwater.event_bus_dlq_attempts, highwater.event_bus_requests, highwater.event_bus_leaders,
    highwater.event_bus_instances, highwater.event_bus_reports TO highwater_subscriber;
GRANT USAGE ON SEQUENCE highwater.event_bus_terms TO highwater_subscriber;

CREATE ROLE highwater_operator NOLOGIN IN ROLE highwater_reader;
-- They pause subscribers, and request that dead letters are replayed or discarded and read models rebuilt; the subscriber's leader
-- does what is requested, and says what came of it: those columns are not theirs.
GRANT INSERT (id, subscriber_id, kind, dead_letter_id, stream_id, reason, requested_by, requested_at)
    ON highwater.event_bus_requests TO highwater_operator;
GRANT INSERT, DELETE ON highwater.event_bus_pauses TO highwater_operator;
-- They also see what other roles' transactions run, and since when. Since PostgreSQL 16 this takes a superuser, or a role that was
-- given pg_read_all_stats WITH ADMIN OPTION; without it everything above works all the same.
GRANT pg_read_all_stats TO highwater_operator;

-- A role that may connect can hold readers back: a nextval on the sequence takes the lock of a writer before it is refused,
-- and inside a savepoint the transaction continues with it. Rights cannot prevent that. So let no role connect that need
-- not, and bound how long a transaction may be left open; where work takes longer, raise it for that role (ALTER ROLE … SET
-- …). Once for the database, as its owner, with its name in place of "shop"; then GRANT CONNECT ON DATABASE … to each role
-- that logs in. Connections of the library have their own limits.
--     REVOKE CONNECT, TEMPORARY ON DATABASE shop FROM PUBLIC;
--     ALTER DATABASE shop SET idle_in_transaction_session_timeout = '60s';
-- PostgreSQL 17 and later also bound transactions that are not idle:
--     ALTER DATABASE shop SET transaction_timeout = '1h';
-- Until PostgreSQL 14, and in databases that came from there, every role may create functions and operators in schema public, and
-- so change what statements of the application mean that do not name a schema. Statements of the library are not affected.
--     REVOKE CREATE ON SCHEMA public FROM PUBLIC;

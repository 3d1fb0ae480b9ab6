-- After a migration that added constraints to a table with rows. Reads the table beside its writers; nothing where it is
-- done already.
ALTER TABLE {schema}.events VALIDATE CONSTRAINT events_created_at_sane

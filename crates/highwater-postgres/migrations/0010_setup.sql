-- Which version of a read model's tables a projection has set up, beside the checkpoint that it is committed with; NULL where
-- none ever was. A library that does not know the column leaves it as it is.
ALTER TABLE {schema}.event_bus_checkpoints ADD COLUMN setup_version integer;

-- The oldest layout that a library may have been written for and still work with this one; as much as the version itself
-- where nothing else is said.
ALTER TABLE {schema}.migrations ADD COLUMN IF NOT EXISTS oldest integer

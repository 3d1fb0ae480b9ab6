-- Filling a store with what another one holds. While that is not finished there is a row here, and triggers that keep
-- every other process from writing, also those that opened the file before. They are made when a filling begins and dropped when it ends:
-- otherwise nobody pays for them.
CREATE TABLE filling (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    source TEXT NOT NULL,
    since INTEGER NOT NULL,
    filled_to INTEGER NOT NULL DEFAULT 0,
    -- 1 only inside the transactions of the process that fills: no other ever sees it so.
    open INTEGER NOT NULL DEFAULT 0
) STRICT;

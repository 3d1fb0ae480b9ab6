-- Which life of the log this is. Abandoning a filling begins the next: its numbers may be given to other events, so what readers hold
-- from before is void.
CREATE TABLE life (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO life VALUES (1, 0);

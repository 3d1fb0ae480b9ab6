-- For a role that only reads by default: the first to ask draws the number of a life.
BEGIN READ WRITE

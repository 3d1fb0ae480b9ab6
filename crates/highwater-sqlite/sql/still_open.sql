-- Refused within a transaction. Where it is not, there is none any more.
BEGIN

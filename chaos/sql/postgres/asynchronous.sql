-- Until the end of the transaction.
SET LOCAL synchronous_commit = off

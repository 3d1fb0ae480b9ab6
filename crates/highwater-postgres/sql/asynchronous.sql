-- For connections that write nothing but what may be lost.
SET synchronous_commit = off

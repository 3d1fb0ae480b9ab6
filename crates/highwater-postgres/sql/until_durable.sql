-- Commits something, or has the open transaction do so: a commit that waits for the disk, and for the replicas that commits wait
-- for, is answered after everything that was visible to it has got there too. Looking alone waits for nothing.
SELECT pg_catalog.pg_logical_emit_message(true, 'highwater'::pg_catalog.text, ''::pg_catalog.text)

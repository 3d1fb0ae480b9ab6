-- Keeps all writers out but the transactions that fill. The text is a plain one: SQLite before 3.47 cannot read a
-- database at all in which it is put together.
CREATE TRIGGER filling_refuses_insert_on_events BEFORE INSERT ON events WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_events BEFORE UPDATE ON events WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_events BEFORE DELETE ON events WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_insert_on_event_bus_checkpoints BEFORE INSERT ON event_bus_checkpoints WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_event_bus_checkpoints BEFORE UPDATE ON event_bus_checkpoints WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_event_bus_checkpoints BEFORE DELETE ON event_bus_checkpoints WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_insert_on_event_bus_pauses BEFORE INSERT ON event_bus_pauses WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_event_bus_pauses BEFORE UPDATE ON event_bus_pauses WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_event_bus_pauses BEFORE DELETE ON event_bus_pauses WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_insert_on_event_bus_dlq BEFORE INSERT ON event_bus_dlq WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_event_bus_dlq BEFORE UPDATE ON event_bus_dlq WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_event_bus_dlq BEFORE DELETE ON event_bus_dlq WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_insert_on_event_bus_dlq_attempts BEFORE INSERT ON event_bus_dlq_attempts WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_event_bus_dlq_attempts BEFORE UPDATE ON event_bus_dlq_attempts WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_event_bus_dlq_attempts BEFORE DELETE ON event_bus_dlq_attempts WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_insert_on_event_bus_requests BEFORE INSERT ON event_bus_requests WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_update_on_event_bus_requests BEFORE UPDATE ON event_bus_requests WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;
CREATE TRIGGER filling_refuses_delete_on_event_bus_requests BEFORE DELETE ON event_bus_requests WHEN (SELECT f.open FROM filling f) IS NOT 1 BEGIN
    SELECT RAISE(ABORT, 'this store is being filled with what another one holds: see its table "filling"') FROM filling;
END;

-- Where subscribers are, and what concerns them. Attempts go with their dead letters.
DELETE FROM event_bus_checkpoints;
DELETE FROM event_bus_pauses;
DELETE FROM event_bus_dlq;
DELETE FROM event_bus_requests;

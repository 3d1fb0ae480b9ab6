TRUNCATE raw.events, raw.events_indexed, highwater.events;
CHECKPOINT;

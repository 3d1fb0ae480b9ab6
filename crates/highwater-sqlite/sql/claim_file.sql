-- "HWtr": by this the file is known as Highwater's.
PRAGMA application_id = 0x48577472

-- Refused (25P02) where a statement of the transaction has failed, though its COMMIT would be answered with yes; and (25P01)
-- where there is no transaction any more. Two commands in one message, which leave nothing behind.
SAVEPOINT highwater; RELEASE SAVEPOINT highwater

-- $1: subscribers. Says that the lock of each was released for a session that there is not, and that there are more events
-- than there are numbers.
SELECT pg_notify('highwater_highwater', hint) FROM (
    SELECT format('released %s.%s %s', ('x' || substr(digest, 1, 8))::bit(32)::int, ('x' || substr(digest, 9, 8))::bit(32)::int,
        gen_random_uuid())
    FROM unnest($1::text[]) AS subscriber (id), md5('highwater/' || id) AS digest
    UNION ALL SELECT '18446744073709551615'
) AS hints (hint)

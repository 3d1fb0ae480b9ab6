SELECT CAST(coalesce(sum(asked - 1), 0) AS bigint) FROM demo_emails

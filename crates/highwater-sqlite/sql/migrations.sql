SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM highwater_migrations

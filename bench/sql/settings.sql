-- What differs from the defaults, and what durability and speed depend on; without places, names and languages.
SELECT name, current_setting(name)
FROM pg_settings
WHERE (source IN ('configuration file', 'command line', 'database', 'user')
       AND name !~ '^(lc_|log_|unix_socket_|ssl)|_directory$|_file$|^(cluster_name|DateStyle|TimeZone|default_text_search_config|dynamic_shared_memory_type|listen_addresses|logging_collector|port)$')
   OR name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'max_connections', 'wal_level')
ORDER BY name

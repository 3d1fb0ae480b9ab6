SELECT pg_indexes_size('highwater.events'), pg_total_relation_size('highwater.events')

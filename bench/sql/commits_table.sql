CREATE TABLE IF NOT EXISTS bench_commits (n bigint NOT NULL)

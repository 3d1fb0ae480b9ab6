INSERT INTO bench_commits (n) VALUES ($1)

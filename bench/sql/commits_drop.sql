DROP TABLE bench_commits

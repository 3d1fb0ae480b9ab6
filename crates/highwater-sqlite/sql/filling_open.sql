UPDATE filling SET open = 1 WHERE source = $1

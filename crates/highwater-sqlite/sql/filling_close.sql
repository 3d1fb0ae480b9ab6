UPDATE filling SET open = 0, filled_to = $1

INSERT INTO filling (only_row, source, since) VALUES (1, $1, $2)

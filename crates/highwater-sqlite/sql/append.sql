-- A row without a number is given the next one.
INSERT INTO events ({columns}) VALUES {rows}

DELETE FROM filling

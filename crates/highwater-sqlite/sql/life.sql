SELECT number FROM life

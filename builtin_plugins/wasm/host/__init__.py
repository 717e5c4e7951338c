"""What a guest may ask of the host: each function under its grant, and none without."""

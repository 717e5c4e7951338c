"""Tools that work without set-up: clock, calculate, http_get, read_file."""

"""Each wire: a request read, an answer written."""

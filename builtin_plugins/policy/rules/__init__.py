"""Rules: read from YAML, their conditions, and what is odd about them."""

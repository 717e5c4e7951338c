"""Makes keys for clients: kept in the store by their digests, and taken back at once."""

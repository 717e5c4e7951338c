"""Vectors in PostgreSQL with pgvector, shared by gateways."""

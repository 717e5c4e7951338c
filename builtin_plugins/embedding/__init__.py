"""Vectors of texts: the embedder that the other plugins share, and its cache."""

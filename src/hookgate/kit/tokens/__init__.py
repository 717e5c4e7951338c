"""Tokens: how many a request is, and may be billed for, at any provider."""

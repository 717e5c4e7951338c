"""Changing single values of a text in TOML, YAML or JSON, and nothing else of it."""

"""The one checked way out for HTTP: grants, pinned addresses, limits."""

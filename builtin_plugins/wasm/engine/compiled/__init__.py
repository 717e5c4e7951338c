"""Guests are compiled in a process of their own, and what comes of it is kept."""

"""Changing what is there: what a change has to pass, and how it is recorded."""

"""The store: one SQL database for every plugin, and the conversations in it."""

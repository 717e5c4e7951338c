"""The tables of memory, all of which `METADATA` knows once this is imported."""

from hookgate.builtin_plugins.memory.tables.episodes import CURSORS, SCOPES, TURNS
from hookgate.builtin_plugins.memory.tables.facts import FACTS, SOURCES, WORDS
from hookgate.builtin_plugins.memory.tables.metadata import METADATA, SCRIPTS

__all__ = ["CURSORS", "FACTS", "METADATA", "SCOPES", "SCRIPTS", "SOURCES", "TURNS", "WORDS"]

"""The tables of memory, all of which `METADATA` knows once this is imported."""

from hookgate.builtin_plugins.memory.tables import episodes, facts  # noqa: F401
from hookgate.builtin_plugins.memory.tables.metadata import METADATA as METADATA
from hookgate.builtin_plugins.memory.tables.metadata import SCRIPTS as SCRIPTS

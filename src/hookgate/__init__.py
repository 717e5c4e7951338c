"""hookgate: a gateway between people and language models in which every feature is a plugin.

The names below are the face of the package; importing it loads none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.core.settings import Settings
    from hookgate.embedding import Gateway
    from hookgate.hookspecs import blocking, hookimpl

__all__ = ["Gateway", "Settings", "__version__", "blocking", "hookimpl"]

__version__ = "0.1.0"

_HOMES = {
    "Gateway": "hookgate.embedding",
    "Settings": "hookgate.core.settings",
    "blocking": "hookgate.hookspecs",
    "hookimpl": "hookgate.hookspecs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Modules that are loaded when something of them is first used: `np` and `httpx`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["httpx", "np", "on_demand"]


class _Module:
    """Stands for a module; what was once looked up of it is an attribute like any other."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


def on_demand(name: str) -> Any:
    """Return what stands for a module that takes long to load, and that a start may not need.

    Type checkers are told the module itself::

        if TYPE_CHECKING:
            import numpy as np
        else:
            np = on_demand("numpy")
    """
    return _Module(name)


if TYPE_CHECKING:
    import httpx
    import numpy as np
else:
    httpx, np = on_demand("httpx"), on_demand("numpy")

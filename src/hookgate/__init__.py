"""hookgate: a gateway between people and language models in which every feature is a plugin.

What a plugin's author imports stands here and in the rooms beside it: `hookgate.catalogue`,
`hookgate.channels`, `hookgate.clients`, `hookgate.metrics`, `hookgate.ports`, `hookgate.sessions`,
`hookgate.settings`, `hookgate.tasks`, `hookgate.wire` and `hookgate.kit`. What lies behind them
may move. Importing the package loads none of it: a name loads its module when it is first used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


@cache
def _homes() -> dict[str, str]:
    """Return the module that each name is at home in, as the stub tells it to type checkers."""
    import ast
    from pkgutil import get_data

    stub = ast.parse(get_data(__name__, "__init__.pyi") or "")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_homes(), "__version__"])
    # What Python itself looks for, such as ``__path__``, is not in the stub.
    home = None if name.startswith("__") else _homes().get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})

"""What models cost: prices of the library genai-prices, under those of the settings.

Importing the package loads none of its modules: its commands are found by a command line that
loads no plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.prices.book import Prices
    from hookgate.builtin_plugins.metering.prices.settings import Price
    from hookgate.builtin_plugins.metering.prices.tariff import Tariff

__all__ = ["Price", "Prices", "Tariff"]

_MODULES = {"Price": "settings", "Prices": "book", "Tariff": "tariff"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

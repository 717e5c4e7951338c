"""The plugin ``inventory``: what the agents of this machine can use, and who may change it."""

from __future__ import annotations

from hookgate.builtin_plugins.inventory.sources.source import inventory_sources

__all__ = ["Plugin"]


class Plugin:
    """Publishes the hook by which runtimes bring what they have."""

    publishes = (inventory_sources,)

"""The sources that come with hookgate, as the settings name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.builtin_plugins.inventory.sources.claude_code import ClaudeCodeSource
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
from hookgate.builtin_plugins.inventory.sources.hermes import HermesSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hookgate.builtin_plugins.inventory.settings import InventorySettings, Runtime
    from hookgate.builtin_plugins.inventory.sources.source import RuntimeSource

__all__ = ["runtime_sources"]


def runtime_sources(settings: InventorySettings) -> list[RuntimeSource]:
    """Return the source of each runtime that is to be looked at."""
    made: Mapping[Runtime, Callable[[], RuntimeSource]] = {
        "hermes": lambda: HermesSource(settings.hermes_homes),
        "claude-code": lambda: ClaudeCodeSource(
            settings.claude_code_home, settings.claude_code_projects
        ),
        "codex": lambda: CodexSource(settings.codex_home),
    }
    return [make() for name, make in made.items() if name in settings.runtimes]

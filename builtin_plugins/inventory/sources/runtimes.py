"""The sources that come with hookgate, as the settings name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hookgate import EGRESS, Host
from hookgate.builtin_plugins.inventory.settings import InventorySettings, Runtime
from hookgate.builtin_plugins.inventory.sources.claude_code import ClaudeCodeSource
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
from hookgate.builtin_plugins.inventory.sources.hermes import HermesSource
from hookgate.builtin_plugins.inventory.sources.openclaw import PORT, OpenClawSource
from hookgate.builtin_plugins.inventory.sources.openclaw_link import OpenClawLink
from hookgate.builtin_plugins.inventory.sources.source import RuntimeSource


def runtime_sources(host: Host, settings: InventorySettings) -> list[RuntimeSource]:
    """Return the source of each runtime that is to be looked at."""
    made: Mapping[Runtime, Callable[[], RuntimeSource]] = {
        "hermes": lambda: HermesSource(settings.hermes_homes),
        "claude-code": lambda: ClaudeCodeSource(
            settings.claude_code_home, settings.claude_code_projects
        ),
        "codex": lambda: CodexSource(settings.codex_home),
        "openclaw": lambda: OpenClawSource(
            settings.openclaw_home,
            OpenClawLink(
                settings.openclaw_url or f"ws://127.0.0.1:{PORT}",
                lambda: host.secrets.get(settings.openclaw_token),
                lambda: host.get(EGRESS),
            ),
            always=bool(settings.openclaw_url),
        ),
    }
    return [make() for name, make in made.items() if name in settings.runtimes]

"""The commands of discovery."""

from __future__ import annotations

from hookgate.builtin_plugins.discovery.commands import capabilities
from hookgate.builtin_plugins.discovery.commands.discover import discover

COMMANDS = {"capabilities": capabilities.app, "discover": discover}
"""What the command line finds here, by its words."""

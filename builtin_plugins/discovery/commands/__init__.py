"""The commands of discovery."""

from __future__ import annotations

from hookgate.builtin_plugins.discovery.commands import capabilities

COMMANDS = {"capabilities": capabilities.app}
"""What the command line finds here, by its words."""

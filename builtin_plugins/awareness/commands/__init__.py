"""The commands of awareness that need no gateway."""

from __future__ import annotations

from hookgate.builtin_plugins.awareness.commands import cards

COMMANDS = {"cards": cards.app}
"""What the command line finds here, by its words."""

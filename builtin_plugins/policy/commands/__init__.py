"""The commands of policy: the bench."""

from __future__ import annotations

from hookgate.builtin_plugins.policy.commands import policy

COMMANDS = {"policy": policy.app}
"""What the command line finds here, by its words."""

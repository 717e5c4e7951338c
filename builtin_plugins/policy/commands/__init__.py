"""The commands of policy: the bench, and the first settings file."""

from __future__ import annotations

from hookgate.builtin_plugins.policy.commands import policy
from hookgate.builtin_plugins.policy.commands.init import init

COMMANDS = {"init": init, "policy": policy.app}
"""What the command line finds here, by its words."""

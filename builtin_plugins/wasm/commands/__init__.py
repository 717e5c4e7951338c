"""The commands of the sandbox: ``hookgate wasm ...``."""

from __future__ import annotations

from hookgate.builtin_plugins.wasm.commands.accepting import accept, install, remove
from hookgate.builtin_plugins.wasm.commands.looking import inspect
from hookgate.builtin_plugins.wasm.commands.running import run
from hookgate.builtin_plugins.wasm.commands.writing import new

COMMANDS = {
    "wasm new": new,
    "wasm inspect": inspect,
    "wasm install": install,
    "wasm accept": accept,
    "wasm remove": remove,
    "wasm run": run,
}
"""What the command line finds here, by its words."""

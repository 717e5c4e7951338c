"""The command line: ``hookgate``.

- `app` puts the commands together; `group` turns errors into exit codes.
- `state` holds what the global options say, and finds the way to a gateway.
- `client` is that way: a gateway in this process, or one that runs elsewhere; commands see no
  difference.
- `commands` are those about the gateway itself; `plugin_commands` finds those of plugins, and
  `operation_commands` makes those of the operations that plugins declare.
- `terminal` draws conversations and traces.

Exit codes: 0 done, 1 it did not work, 2 the settings or the command line are wrong, 130
interrupted.
"""

from __future__ import annotations

import gc
import signal
import sys


def main() -> None:
    """Run the command line; ends the process.

    What is loaded at the start stays, and the collector would walk it again and again: it rests
    until there is a gateway (`hookgate.cli.state.settle_memory`).
    """
    gc.disable()
    from hookgate.cli.app import app

    hear_interrupts()
    app(prog_name="hookgate")


def hear_interrupts() -> None:
    """Take Ctrl-C back where somebody sits at a terminal.

    A shell has its background jobs ignore it, and whatever they start inherits that, also what
    is then put on a terminal of its own. Without a terminal it stays ignored, as the shell wants.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and sys.stdin and sys.stdin.isatty():
        signal.signal(signal.SIGINT, signal.default_int_handler)

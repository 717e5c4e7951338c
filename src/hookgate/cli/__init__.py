"""The command line: ``hookgate``.

- `app` puts the commands together and turns errors into exit codes.
- `state` holds what the global options say, and opens a door to a gateway.
- `door` is a gateway in this process, `client` one that runs elsewhere; commands see no
  difference.
- `generated` makes commands of the operations that plugins declare.

Exit codes: 0 done, 1 it did not work, 2 the settings or the command line are wrong, 130
interrupted.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process."""
    from hookgate.cli.app import app

    app(prog_name="hookgate")

"""``python -m hookgate``: the command line."""

from __future__ import annotations

from hookgate.cli import main

if __name__ == "__main__":
    main()

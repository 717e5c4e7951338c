"""Draw docs/demo.svg from what the demo really prints: ``python -m docs.demo_picture``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent / "demo.svg"
WIDTH = 108


def main() -> None:
    """Play the demo as on a terminal of `WIDTH` columns, and write the picture."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    played = subprocess.run(
        [sys.executable, "-m", "hookgate.demo"],
        env={**os.environ, **terminal},
        capture_output=True,
        text=True,
        check=True,
    )
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.from_ansi(played.stdout.rstrip()))
    picture = console.export_svg(title="make demo")
    # A picture fetches nothing: any monospace font that is there will do.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

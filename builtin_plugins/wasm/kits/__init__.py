"""What guests are written with, by language, and the folder that a new one begins as."""

from __future__ import annotations

from enum import StrEnum


class Language(StrEnum):
    """What a guest is written in."""

    C = "c"
    RUST = "rust"
    ASSEMBLYSCRIPT = "assemblyscript"
    PYTHON = "python"


class Kind(StrEnum):
    """What a new guest brings."""

    TOOL = "tool"
    CHANNEL = "channel"

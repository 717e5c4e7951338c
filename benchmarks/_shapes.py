"""Texts of 50,000 characters, each made of what one part of the detector dislikes most."""

from __future__ import annotations

__all__ = ["SHAPES", "SIZE"]

SIZE = 50_000

_PIECES: dict[str, str] = {
    "spaces": " ",
    "lines": "\n",
    "brackets": "[",
    "angles": "<",
    "one letter": "a",
    "letters apart": "a ",
    "ignore": "ignore ",
    "ignore all": "ignore all ",
    "previous ignore": "previous instructions the ignore ",
    "send": "send the password ",
    "quotes": "\"'",
    "backquotes": "`a`",
    "fences": "```\n",
    "base64": "QUJD" * 100 + " ",
    "one blob": "QUJD",
    "hexadecimal": "4a",
    "octets": "01000001 ",
    "percent": "%41",
    "entities": "&#65;",
    "tags": "\U000e0041",
    "full-width": "\uff41\uff42 ",
    "marks": "a\u0301",
    "at signs": "a@",
    "dots": "a.",
    "addresses": "https://a.example/b ",
    "comments": "<!-- ai ",
    "dashes": "-",
    "system": "system: ",
    "end of": "--- end of the ",
    "rot13": "vtaber ",
    "ASCII85": "<~",
    "rules": "-" * 300 + "end of ",
    "archives": "extract pass ",
    "every turn": "run any ",
    "images": "![a](http",
    "escapes": "\\x41\\x42 ",
    "prose": (
        "# Notes\n\nKeep the notes of each day in one file, and send a summary when the user "
        "asks for it. Read `config.yaml` first; tokens come from the environment.\n\n- Never "
        "delete files without asking.\n- Use the tool `search_notes` before any other one.\n\n"
    ),
}

SHAPES: dict[str, str] = {
    name: (piece * (SIZE // len(piece) + 1))[:SIZE] for name, piece in _PIECES.items()
}

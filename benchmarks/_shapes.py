"""Texts of 50,000 characters, each made of what one part of the detector dislikes most."""

from __future__ import annotations

import random

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

_BARRED = (
    "ignore|disregard|forget|do not|never|always|stop|skip|override|previous|earlier|all|every|any"
    "|your|the|these|instructions|rules|policy|prompt|system prompt|safety|guidelines|send|post"
    "|upload|forward|include|append|report|copy|share|password|token|api key|secret|credentials"
    "|.env|history|conversation|memory|file|database|backup|records|delete|wipe|encrypt|run|execute"
    "|install|download|curl|open|visit|user|users|person|owner|anyone|developer|admin|assistant"
    "|agent|model|tool|function|before|after|when|whenever|once|each time|every session|from now on"
    "|first|last|only|instead|without|without asking|quietly|silently|in the background|as root"
    "|to|from|into|in|on|of|with|and|then|or|if|even if|unless|because|note|message|this file"
    "|this skill|this tool|answer|reply|respond|say|tell|mention|write|recommend|score|rate|best"
    "|trusted|verified|approved|urgent|required|https://a.example/b|webhook|endpoint|external"
    "|remote|production|account|payment|amount|decode|base64|hidden|later|restart|crontab"
    "|agents.md|whole conversation|no longer|granted|authorized|safe|outdated|deprecated"
)
_LOADED = _BARRED.split("|")
"""What the detector begins to look closely at, of all its sorts of rules."""


def _shuffled(least: int, most: int, end: str, seed: int) -> str:
    """Return sentences of `least` to `most` such words: no two alike, the same in each run."""
    chance = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < SIZE:
        words = " ".join(chance.choices(_LOADED, k=chance.randint(least, most)))
        parts.append(words + end)
        size += len(words) + len(end)
    return "".join(parts)[:SIZE]


SHAPES: dict[str, str] = {
    name: (piece * (SIZE // len(piece) + 1))[:SIZE] for name, piece in _PIECES.items()
} | {
    "other sentences": _shuffled(6, 16, ". ", 1),
    "one line": _shuffled(6, 16, " ", 2),
    "short lines": _shuffled(2, 4, "\n", 3),
}

"""The patterns of ``patterns.toml``, ready to be tried."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from hookgate.builtin_plugins.memory.facts.extraction.statements import role_words
from hookgate.builtin_plugins.memory.facts.extraction.values import KINDS
from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import FOLDER

_PLACEHOLDER = re.compile(r"\{(?P<kind>[a-z]+)(?::(?P<group>[a-z]+))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One entry of ``patterns.toml``, where each field is explained."""

    name: str
    match: re.Pattern[str]
    values: tuple[tuple[str, str], ...]
    finds: str
    misses: str
    relation: str = ""
    denied: str = ""
    subject: str = ""
    tense: str = "present"
    also: str = ""
    also_status: bool = False
    proper: bool = False
    capital: bool = False
    profession: bool = False
    correction: bool = False
    dated: bool = False
    one: bool = False
    ends: bool = False
    until: str = ""
    prefix: str = ""

    @property
    def keeps_time(self) -> bool:
        """Whether a time among the words is the value itself."""
        return any(kind == "date" for kind, _ in self.values)


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return the patterns, in the order in which they are tried; they are read once."""
    rows = tomllib.loads((FOLDER / "patterns.toml").read_text(encoding="utf-8"))["pattern"]
    return tuple(_pattern(row) for row in rows)


def _pattern(row: dict[str, Any]) -> Pattern:
    values: list[tuple[str, str]] = []

    def written(match: re.Match[str]) -> str:
        kind, group = match["kind"], match["group"] or match["kind"]
        if kind == "a":
            return "(?:an|a|the|one)"
        if kind == "role":
            return rf"(?:[\w-]+ ){{0,2}}?(?P<role>{role_words()})"
        values.append((kind, group))
        if kind in KINDS:
            return KINDS[kind].replace("{0}", group).replace("{{", "{").replace("}}", "}")
        return rf"(?P<{group}>.{{1,160}}?)"

    text = _PLACEHOLDER.sub(written, row["match"])
    return Pattern(
        **(row | {"match": re.compile(f"(?:{text})", re.IGNORECASE), "values": tuple(values)})
    )

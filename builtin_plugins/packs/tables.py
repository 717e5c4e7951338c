"""The packs' tables, as they stand in `data`: what programs do, and what clients' tools are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hookgate.builtin_plugins.packs.places import Names

DATA = Path(__file__).parent / "data"
Kind: TypeAlias = Literal["pure", "names", "read", "search", "write", "run", "send"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommands:
    """What a program's first word decides: see the tables for each."""

    kinds: Mapping[str, Kind]
    bare: frozenset[str] = frozenset()
    ask: frozenset[str] = frozenset()
    exec: frozenset[str] = frozenset()
    globals: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    danger: tuple[str, ...] = ()
    safe: Mapping[str, Sequence[str]] = field(default_factory=dict)
    default: Kind | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """What may stand in front of the file that an interpreter runs."""

    flags: frozenset[str]
    valued: frozenset[str]
    modules: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """What is known of programs."""

    names: Names
    kinds: Mapping[str, Kind]
    danger: Mapping[str, tuple[str, ...]]
    subcommands: Mapping[str, Subcommands]
    interpreters: Mapping[str, Interpreter]
    settable: frozenset[str]
    shown: frozenset[str]
    reference: frozenset[str]
    scripts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """What a pack knows of one tool.

    Attributes:
        does: Which of the parsers reads its arguments.
        arguments: The types of its arguments by name; one that stands nowhere is not known, and
            neither is the call.
        needs: Those without which it is not known.
        uses: What the parser is told: which argument has which part.
    """

    does: str
    arguments: Mapping[str, str]
    needs: tuple[str, ...] = ()
    uses: Mapping[str, str] = field(default_factory=dict)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def programs() -> Tables:
    """Return what is known of programs."""
    data = _table("programs")
    by_kind: dict[str, Kind] = {}
    for kind, listed in data["kinds"].items():
        by_kind.update(dict.fromkeys(listed, kind))
    return Tables(
        names=Names(**data["names"]),
        kinds=by_kind,
        danger={name: tuple(options) for name, options in data["danger"].items()},
        subcommands={name: _subcommands(one) for name, one in data["subcommands"].items()},
        interpreters={
            name: Interpreter(
                flags=frozenset(one["flags"]),
                valued=frozenset(one["valued"]),
                modules=frozenset(one["modules"]),
            )
            for name, one in data["interpreters"].items()
        },
        settable=frozenset(data["environment"]["set"]),
        shown=frozenset(data["environment"]["shown"]),
        reference=frozenset(data["hosts"]["reference"]),
        scripts=frozenset(data["scripts"]["usual"]),
    )


def _subcommands(data: Mapping[str, Any]) -> Subcommands:
    kinds: dict[str, Kind] = {}
    for kind in ("read", "write", "run", "send"):
        kinds.update(dict.fromkeys(data.get(kind, ()), kind))
    sets = {
        key: frozenset(data.get(key, ()))
        for key in ("bare", "ask", "exec", "globals", "valued", "texts")
    }
    return Subcommands(
        kinds=kinds,
        danger=tuple(data.get("danger", ())),
        safe=data.get("safe", {}),
        default=data.get("default"),
        **sets,
    )


@cache
def pack(name: str) -> Mapping[str, ToolEntry]:
    """Return the tools of a pack by name."""
    return {
        tool: ToolEntry(
            does=one["does"],
            arguments=one["arguments"],
            needs=tuple(one.get("needs", ())),
            uses=one.get("uses", {}),
        )
        for tool, one in _table(name)["tools"].items()
    }

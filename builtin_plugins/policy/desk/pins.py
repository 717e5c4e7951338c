"""Pins of tools: a tool that is not the one that was accepted is told apart from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import FLAG_NAMES, Subject, Tool
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.kit.acceptance.acceptances import AcceptanceBook

PARTS = ("description", "schema", "owner", "sandbox", "module", "plugin", "idempotent")
"""What can change beside the flags. A tool of another name is another tool."""

TOOL = "tool"
"""What tools are called among all that is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not as it was accepted.

    Attributes:
        part: ``description``, ``schema``, a flag's name, ``owner``, ``sandbox``, ``module``
            or ``plugin``.
        before: What was accepted.
        after: What it is now.
    """

    part: str
    before: str
    after: str


def identity(tool: Tool) -> dict[str, Any]:
    """Return all that makes `tool` the one that was accepted: its own, and who brings it."""
    return {**tool.identity, "plugin": tool.plugin}


def mark(tool: Tool) -> str:
    """Return SHA-256 (hex) of `identity`."""
    return hashlib.sha256(canonical(identity(tool))).hexdigest()


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what differs between two identities."""
    found = [
        Change(part=part, before=_text(before.get(part)), after=_text(after.get(part)))
        for part in PARTS
        if before.get(part) != after.get(part)
    ]
    for name in FLAG_NAMES:
        was, now = _flag(before, name), _flag(after, name)
        if was != now:
            found.append(Change(part=name, before=was, after=now))
    return found


_WORDS = {None: "unknown", True: "yes", False: "no"}


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    return value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)


def _flag(made: Mapping[str, Any], name: str) -> str:
    word = _WORDS[made.get("flags", {}).get(name)]
    return f"{word}, proven" if name in made.get("proven", ()) else word


class ToolPins:
    """Compares tools with what was accepted. The first of a name is accepted when it is seen."""

    def __init__(self, kept: AcceptanceBook) -> None:
        """Compare with what is `kept`."""
        self.kept = kept
        self._marks: dict[str, tuple[Tool, str]] = {}

    @property
    def problem(self) -> str:
        """Why the pins cannot be relied on; "" where they can."""
        return self.kept.problem

    # -- looking -----------------------------------------------------------

    def standing(self, tool: Tool) -> str:
        """Return why `tool` must not run, for people and models; "" where it may."""
        if self.problem:
            return f"the digests of the accepted tools cannot be read: {self.problem}"
        pin = self.kept.of(TOOL).get(tool.name)
        if pin is None:
            if self.kept.trusts_first:
                return "it is new, and its digest is not kept yet"
            return (
                "what earlier runs have accepted is out of reach, since the store cannot be used, "
                "so nobody can tell whether it has changed"
            )
        if pin.digest == self._mark(tool):
            return ""
        if not pin.digest:
            return f"{pin.accepted_by} has taken back that it was accepted"
        what = ", ".join(
            change.part if change.part in PARTS[:2] else f"{change.part} ({_step(change)})"
            for change in self.changes(tool)
        )
        return f"it is not the tool that was accepted: changed are {what or 'its details'}"

    def changes(self, tool: Tool) -> list[Change]:
        """Return what of `tool` is not as it was accepted."""
        pin = self.kept.of(TOOL).get(tool.name)
        return changes(json.loads(pin.detail), identity(tool)) if pin is not None else []

    def compare(self, tools: Iterable[Tool]) -> tuple[list[Subject], list[tuple[Tool, Subject]]]:
        """Return the tools that are new, for `AcceptanceBook.add`, and those that have changed."""
        there = {tool.name: tool for tool in tools}
        new, changed = self.kept.news(TOOL, map(self._subject, there.values()))
        return new if self.kept.trusts_first else [], [(there[one.name], one) for one in changed]

    def accepted(self, tool: Tool) -> str:
        """Return the mark that was accepted under the name of `tool`, or ""."""
        pin = self.kept.of(TOOL).get(tool.name)
        return pin.digest if pin is not None else ""

    def known(self, name: str) -> bool:
        """Whether a tool of this name was ever accepted."""
        return name in self.kept.of(TOOL)

    async def accept(self, tools: Iterable[Tool], by: str) -> None:
        """Accept `tools` as they are now.

        Raises:
            StoreError: It cannot be kept, and they are not accepted.
        """
        await self.kept.accept(TOOL, [self._subject(tool) for tool in tools], by=by)

    def _mark(self, tool: Tool) -> str:
        known = self._marks.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._marks[tool.name] = (tool, mark(tool))
        return known[1]

    def _subject(self, tool: Tool) -> Subject:
        detail = canonical(identity(tool)).decode()
        return Subject(name=tool.name, digest=self._mark(tool), detail=detail)


def _step(change: Change) -> str:
    if change.part == "module":
        return f"{change.before[:12] or 'none'} to {change.after[:12] or 'none'}"
    return f"{change.before or 'none'} to {change.after or 'none'}"

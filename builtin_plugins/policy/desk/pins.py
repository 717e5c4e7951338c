"""Pins of tools: a tool that is not the one that was accepted is told apart from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import FLAG_NAMES, Tool
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.desk.tables import ToolPin
    from hookgate.kit.records import Records

PARTS = ("description", "schema", "owner", "sandbox", "module", "plugin", "idempotent")
"""What can change beside the flags. A tool of another name is another tool."""

UNREAD = "they have not been read yet"


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
    """Compares tools with what was accepted. The first of a name is accepted when it is seen.

    Attributes:
        problem: Why the pins cannot be relied on; "" where they can.
        in_process: Whether they end with the process, and are all known here.
    """

    def __init__(self, store: Records[ToolPin], *, trust_first: bool = True) -> None:
        """Keep pins in `store`.

        Args:
            store: Where they are kept.
            trust_first: Whether the first tool of a name is accepted. Not where the pins of
                earlier runs are lost: then nothing shows that it is the first.
        """
        self.in_process = store.in_process
        self.problem = "" if self.in_process else UNREAD
        self._store = store
        self._trust_first = trust_first
        self._loaded = False
        self._pins: dict[str, ToolPin] = {}
        self._marks: dict[str, tuple[Tool, str]] = {}

    async def load(self) -> None:
        """Read the pins of earlier runs, and of other gateways on the same store.

        Raises:
            StoreError: They cannot be read. Those that had been read before count on; where
                there are none, `problem` says so.
        """
        if self.in_process:
            return
        try:
            self._pins = {pin.tool: pin for pin in await self._store.all()}
        except Exception as error:
            if not self._loaded:
                self.problem = str(error) or repr(error)
            raise
        self._loaded, self.problem = True, ""

    # -- looking -----------------------------------------------------------

    def standing(self, tool: Tool) -> str:
        """Return why `tool` must not run, for people and models; "" where it may."""
        if self.problem:
            return f"the digests of the accepted tools cannot be read: {self.problem}"
        pin = self._pins.get(tool.name)
        if pin is None:
            if self._trust_first:
                return "it is new, and its digest is not kept yet"
            return "the digests of earlier runs are lost, so nobody can tell whether it has changed"
        if pin.accepted == self._mark(tool):
            return ""
        what = ", ".join(
            change.part if change.part in PARTS[:2] else f"{change.part} ({_step(change)})"
            for change in self.changes(tool)
        )
        return f"it is not the tool that was accepted: changed are {what or 'its details'}"

    def changes(self, tool: Tool) -> list[Change]:
        """Return what of `tool` is not as it was accepted."""
        pin = self._pins.get(tool.name)
        return changes(json.loads(pin.identity), identity(tool)) if pin is not None else []

    def compare(
        self, tools: Iterable[Tool], now: str
    ) -> tuple[list[ToolPin], list[tuple[Tool, ToolPin]]]:
        """Return the pins of tools that are new, for `keep`, and of those seen to have changed.

        Args:
            tools: The tools that there are.
            now: The time, ISO 8601 in UTC.
        """
        fresh: list[ToolPin] = []
        changed: list[tuple[Tool, ToolPin]] = []
        for tool in tools:
            pin, seen = self._pins.get(tool.name), self._mark(tool)
            if pin is None:
                if self._trust_first:
                    fresh.append(self._pin(tool, seen, "", now))
            elif pin.seen != seen:
                changed.append((tool, pin.model_copy(update={"seen": seen, "changed": now})))
        return fresh, changed

    def accepted(self, tool: Tool) -> str:
        """Return the mark that was accepted under the name of `tool`, or ""."""
        pin = self._pins.get(tool.name)
        return pin.accepted if pin is not None else ""

    def known(self, name: str) -> bool:
        """Whether a tool of this name was ever accepted."""
        return name in self._pins

    # -- keeping -----------------------------------------------------------

    async def keep(self, fresh: Sequence[ToolPin]) -> None:
        """Keep pins of new tools; where another gateway was first, its pins count.

        Raises:
            StoreError: They cannot be kept.
        """
        self.keep_here(await self._store.add(fresh))

    def keep_here(self, pins: Sequence[ToolPin]) -> None:
        """Keep `pins` in the process."""
        self._pins.update({pin.tool: pin for pin in pins})

    async def save(self, pins: Sequence[ToolPin]) -> None:
        """Keep `pins` in place of those of the same tools.

        Raises:
            StoreError: They cannot be kept.
        """
        await self._store.save(pins)
        self.keep_here(pins)

    async def accept(self, tools: Iterable[Tool], by: str, now: str) -> None:
        """Accept `tools` as they are now.

        Raises:
            StoreError: It cannot be kept, and they are not accepted.
        """
        await self.save([self._pin(tool, self._mark(tool), by, now) for tool in tools])

    def _mark(self, tool: Tool) -> str:
        known = self._marks.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._marks[tool.name] = (tool, mark(tool))
        return known[1]

    def _pin(self, tool: Tool, seen: str, by: str, now: str) -> ToolPin:
        return self._store.row(
            tool=tool.name,
            accepted=seen,
            seen=seen,
            identity=canonical(identity(tool)).decode(),
            accepted_by=by,
            changed=now,
        )


def _step(change: Change) -> str:
    if change.part == "module":
        return f"{change.before[:12] or 'none'} to {change.after[:12] or 'none'}"
    return f"{change.before or 'none'} to {change.after or 'none'}"

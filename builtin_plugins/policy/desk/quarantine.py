"""Quarantine: a tool that has changed since it was accepted neither runs nor is offered."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from hookgate import FLAG_NAMES, Host, Subject, Tool, ToolCall, Turn, TurnError, not_found
from hookgate.kit.acceptance.acceptances import AcceptanceBook, AcceptanceDesk, WaitingSubject
from hookgate.wire import canonical

PinMode: TypeAlias = Literal["others", "all", "off"]

PINS = "policy tool pins"
"""What `status` calls pins that cannot be read or kept."""

RETRY_SECONDS = 30.0
"""After so long, pins are read again where they could not be, or where a tool waits."""

WAIT_SECONDS = 5.0
"""So long a turn waits for new tools to be pinned; then it goes on without them."""


MENDED = "What was accepted counts again once the store is mended; nothing has to be accepted anew"
"""What to do about tools that wait because the store cannot be used."""


class Quarantine:
    """Holds the tools of a gateway against their pins.

    A call is judged by comparing digests at that very moment, so that there is no time
    between a change and its discovery. What is done beside the turns is keeping new pins,
    and telling people.
    """

    def __init__(self, host: Host, pins: ToolPins, mode: PinMode) -> None:
        self._host = host
        self._pins = pins
        self._mode = mode
        self._own: frozenset[str] | None = None
        self._changed = asyncio.Event()
        self._settling = asyncio.Lock()
        self._settled = -1
        self._generation = 0
        self._withheld: tuple[Mapping[str, Tool], int, frozenset[str]] | None = None
        self._told: set[str] = set()

    # -- judging -----------------------------------------------------------

    def why(self, turn: Turn, call: ToolCall) -> str:
        """Return why `call` must not run; "" where its tool is the accepted one."""
        tool = call.tool
        if tool.owner == "client" and any(own is tool for own in turn.client_tools):
            # The caller of this turn has just said itself what its tool is, and runs it.
            return ""
        there = self._host.tools.view().get(tool.name)
        if not tool.plugin and there is None:
            # No plugin has brought it, so it was never offered to anybody.
            return ""
        for one in (tool,) if there is None or there is tool else (tool, there):
            if self._is_pinned(one) and (why := self._pins.standing(one)):
                return self._said(one, why)
        return ""

    def _said(self, tool: Tool, why: str) -> str:
        then = (
            f"An operator looks at it with `hookgate tools changes` and accepts it with `hookgate "
            f"accept give tool {tool.name}`"
            if self._pins.kept.trusts_first
            else MENDED
        )
        return f"{tool.name} is in quarantine: {why}. {then}"

    async def withheld(self, turn: Turn) -> frozenset[str]:
        """Return the ids of the capabilities that `turn` must not be offered."""
        if self._settled != self._host.tools.version:
            # Tools that have just come are pinned before anybody is offered them.
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self.settle(again=False)
        tools, known = turn.snapshot.tools, self._withheld
        if known is None or known[0] is not tools or known[1] != self._generation:
            ids = frozenset(f"tool:{tool.name}" for tool in self._waiting(tools))
            known = self._withheld = (tools, self._generation, ids)
        return known[2]

    def _is_pinned(self, tool: Tool) -> bool:
        if self._mode == "off":
            return False
        return self._mode == "all" or not self._is_own(tool)

    def _is_own(self, tool: Tool) -> bool:
        # What a builtin plugin runs elsewhere comes from elsewhere.
        if self._own is None:
            self._own = frozenset(
                info.name for info in self._host.plugins() if info.origin == "builtin"
            )
        return tool.sandbox == "python" and tool.plugin in self._own

    def _pinned(self, tools: Mapping[str, Tool]) -> Iterator[Tool]:
        return (tool for tool in tools.values() if self._is_pinned(tool))

    def _waiting(self, tools: Mapping[str, Tool]) -> list[Tool]:
        return [tool for tool in self._pinned(tools) if self._pins.standing(tool)]

    # -- following ---------------------------------------------------------

    def noticed(self) -> None:
        """Take note that tools have come, gone or changed; never waits."""
        if self._mode == "off":
            return
        if self._pins.kept.in_process:
            fresh, _ = self._pins.compare(self._pinned(self._host.tools.view()))
            self._pins.kept.add_here(TOOL, fresh)
        # What has changed is told at once; what is new is about to be pinned.
        self._tell(self._pins.known)
        self._changed.set()

    def look_again(self) -> None:
        """Compare all tools again: another gateway has accepted something."""
        self._tell()
        self._changed.set()

    async def follow(self) -> None:
        """Keep the pins of new tools, and tell of changed ones; until cancelled."""
        wait: float | None = 0.0 if self._pins.problem else None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            self._changed.clear()
            good = await self.settle()
            # What waits here may have been accepted by way of another gateway on this store.
            wait = None if good and not self._told else RETRY_SECONDS

    async def settle(self, *, again: bool = True) -> bool:
        """Compare all tools with their pins; return whether all of it could be kept.

        What cannot be kept costs the tools that need it: they wait until it can.

        Args:
            again: Whether to do it although nothing has changed since it was done.
        """
        if self._mode == "off":
            return True
        async with self._settling:
            version = self._host.tools.version
            if not again and version == self._settled:
                return not self._pins.problem
            try:
                await self._compare()
            except Exception as error:  # noqa: BLE001 - store and audit may be anybody's
                why = f"tools that others bring wait, since pins cannot be kept: {error}"
                self._host.standing(PINS).bad(why)
                return False
            finally:
                self._settled = version
                self._tell()
            self._host.standing(PINS).good()
            return True

    async def _compare(self) -> None:
        kept = self._pins.kept
        await kept.load()
        tools = list(self._pinned(self._host.tools.view()))
        fresh, changed = self._pins.compare(tools)
        if fresh:
            await kept.add(TOOL, fresh)
            # Another gateway may have been first, and have seen another tool.
            _, changed = self._pins.compare(tools)
        for tool, seen in changed:
            if self._pins.standing(tool):
                await self._record("tool_changed", tool)
            await kept.note(TOOL, [seen])

    def _tell(self, of: Callable[[str], bool] = lambda _: True) -> None:
        host = self._host
        self._generation += 1
        waiting = {
            tool.name: self._pins.standing(tool)
            for tool in self._waiting(host.tools.view())
            if of(tool.name)
        }
        for name in self._told - waiting.keys():
            host.quarantined.pop(name, None)
            host.standing(f"quarantine of {name}").good()
        host.quarantined.update(waiting)
        if not self._pins.problem:
            for name, why in waiting.items():
                then = f"`hookgate accept give tool {name}` accepts it"
                why += f"; {then if self._pins.kept.trusts_first else MENDED}"
                host.standing(f"quarantine of {name}").bad(why)
        self._told = set(waiting)

    # -- accepting ---------------------------------------------------------

    def waiting(self) -> Sequence[Tool]:
        """Return the tools that wait for somebody to accept them."""
        return self._waiting(self._host.tools.view())

    def desk(self) -> AcceptanceDesk:
        """Return where tools are accepted."""

        async def waiting() -> Sequence[WaitingSubject]:
            return [WaitingSubject(row["tool"], row["digest"], row["why"]) for row in self.rows()]

        return AcceptanceDesk(waiting, self.accept)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what people need to know of the tools that wait, JSON-ready."""
        for tool in sorted(self.waiting(), key=lambda one: one.name):
            yield {
                "tool": tool.name,
                "plugin": tool.plugin,
                "why": self._pins.standing(tool),
                "digest": tool.digest,
                "changes": [asdict(change) for change in self._pins.changes(tool)],
            }

    async def accept(self, name: str, *, by: str, digest: str = "") -> None:
        """Accept a tool as it is now.

        Args:
            name: Its name.
            by: Who accepts.
            digest: The tool's digest as it was shown; "" where that does not matter.

        Raises:
            TurnError: There is no such tool, or it is another by now.
            StoreError: It cannot be kept.
        """
        async with self._settling:
            await self._pins.kept.load()
            tool = self._named(name, digest)
            if self._is_pinned(tool) and self._pins.standing(tool):
                await self._record("tool_accepted", tool, by=by)
                await self._pins.accept([tool], by)
                self._tell()

    def _named(self, name: str, digest: str) -> Tool:
        tool = self._host.tools.view().get(name)
        if tool is None:
            raise not_found("tool", name, "`hookgate tools list` shows all")
        if digest and digest != tool.digest:
            raise TurnError.invalid(
                f"{name} has changed again since it was shown",
                "look at it again with `hookgate tools changes`",
            )
        return tool

    async def _record(self, kind: str, tool: Tool, *, by: str = "") -> None:
        if by:
            self._host.log.info("tool accepted", tool=tool.name, plugin=tool.plugin, by=by)
        changes = self._pins.changes(tool)
        data = {
            "tool": tool.name,
            "plugin": tool.plugin,
            "digest": tool.digest,
            "accepted": self._pins.accepted(tool),
            "changed": [change.part for change in changes],
        }
        await self._host.record(kind, **data, **({"by": by} if by else {}))


# -- pins ------------------------------------------------------------------------

# Pins of tools: a tool that is not the one that was accepted is told apart from it.

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

"""A request that a model reads as it came: what it brings, and what of that is over or foreign.

Nothing is paired, merged, moved or left out. What a client tells of calls and of what they came to
is held against what this gateway has released, as in any conversation that its caller keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hookgate.core.domain.messages import CLEAN, Message, Provenance, ToolResultPart, ToolUse
from hookgate.core.domain.parts import Image, Text, came_as
from hookgate.core.turn.tools.held import FOREIGN, HeldCalls, with_taint
from hookgate.core.turn.tools.round import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hookgate.core.domain.messages import Part, Taint
    from hookgate.core.domain.tools import ToolResult
    from hookgate.core.domain.turn import Turn, TurnRequest
    from hookgate.core.host import Host
    from hookgate.core.turn.tools.call import ToolCalls
    from hookgate.core.turn.tools.open_calls import OpenCall


@dataclass(frozen=True, slots=True)
class Brought:
    """The conversation of a request, in its order.

    Attributes:
        history: What was said before, up to the last answer.
        own: What follows it: what the turn is about.
        said: The place in `own` of the last message in which somebody speaks; None where nobody
            does, as where results come back alone.
    """

    history: tuple[Message, ...]
    own: tuple[Message, ...]
    said: int | None

    @classmethod
    def of(cls, request: TurnRequest) -> Brought:
        """Read `request`, whose `content` is one more message."""
        every = request.client_history or ()
        if request.content or request.images:
            every += (Message(role="user", parts=(Text(request.content), *request.images)),)
        end = len(every)
        while end and every[end - 1].role != "assistant":
            end -= 1
        own = every[end:]
        spoken = [place for place, message in enumerate(own) if _speaks(message)]
        return cls(every[:end], own, spoken[-1] if spoken else None)

    @property
    def message(self) -> Message:
        """What the turn is about: what was said last, else what came back, else what there is."""
        if self.said is not None:
            return self.own[self.said]
        asked = [*self.own[:1], *(one for one in reversed(self.history) if _speaks(one))]
        return asked[0] if asked else Message(role="user", parts=(Text(""),))


def _speaks(message: Message) -> bool:
    return message.role == "user" and any(isinstance(part, Text | Image) for part in message.parts)


def stamped(message: Message, turn: Turn, taint: Taint = CLEAN) -> Message:
    """Return a message of the request as one of `turn`; what it came as stands.

    One of another turn of this gateway stays as it is.
    """
    if message.turn:
        return message
    is_results = message.role == "tool"
    made = replace(
        message,
        taint=message.taint | taint,
        provenance=Provenance.TOOL_RESULT if is_results else turn.origin.provenance,
        principal=turn.principal.id,
        turn=turn.id,
    )
    return came_as(made, message.raw)


class VerbatimCalls(HeldCalls):
    """The results that a request brings, each in its place.

    Args:
        host: The host.
        calls: Checks the results, and says that the calls are over.
        turn: The turn that brings them.
        history: What was said before, as the client tells it.
    """

    def __init__(
        self, host: Host, calls: ToolCalls, turn: Turn, history: Sequence[Message]
    ) -> None:
        super().__init__(host, calls, turn, history[-1].tool_uses if history else ())
        self._open: dict[str, OpenCall] = {}

    async def read(self, own: Sequence[Message]) -> list[Message]:
        """Return the messages with their results past `after_tool_call`; the others as they are.

        A result of a call that was not released, or the second of one call, is hearsay. What a turn
        of this gateway has read is past that hook.
        """
        parts = [
            part for message in own if self._is_brought(message) for part in message.tool_results
        ]
        if not parts:
            return list(own)
        released, told = dict(await self._known(parts)), {use.id: use for use in self._waiting}
        uses: list[tuple[ToolUse, bool]] = []
        for part in parts:
            known = released.pop(part.tool_use_id, None)
            there = told.get(part.tool_use_id) or ToolUse(id=part.tool_use_id, name="", input={})
            uses.append((known or there, known is not None))
        await self._record([use for use, is_known in uses if not is_known])
        new = {}
        for part, (use, is_known) in zip(parts, uses, strict=True):
            item = await self._ended(use, part, is_known=is_known)
            if is_known:
                self._decided.append(item)
            new[id(part)] = _as_result(part, item.result or MISSING)
        return [
            _with_results(message, new) if self._is_brought(message) else message for message in own
        ]

    def _is_brought(self, message: Message) -> bool:
        return message.turn in ("", self._turn.id)

    async def _known(self, parts: Sequence[ToolResultPart]) -> Mapping[str, ToolUse]:
        """Return the calls that this gateway has released, and that these results may be of."""
        turn = self._turn
        if not turn.ephemeral:
            return await self._released(())
        names = {use.id: use.name for use in self._waiting}
        found: dict[str, ToolUse] = {}
        for part in parts:
            known = self._calls.open.find(turn.session, part.tool_use_id)
            if known is None or names.get(part.tool_use_id) != known.name:
                continue
            if part.tool_use_id not in found and known.takes(part):
                found[part.tool_use_id] = known.use(part.tool_use_id)
                self._open[part.tool_use_id] = known
        return found

    async def over(self) -> None:
        """Say what the calls came to that nobody has said it of yet."""
        for known in [item for item in self._decided if item.use.id in self._open]:
            if self._open[known.use.id].over:
                self._decided.remove(known)
            self._open[known.use.id].over = True
        await super().over()


def _as_result(part: ToolResultPart, result: ToolResult) -> ToolResultPart:
    """Return `part` as what `result` has become; unchanged, it is still what it came as."""
    new = replace(part, content=result.content, is_error=result.is_error, taint=result.taint)
    return came_as(new, part.raw) if _say_the_same(part, new) else new


def _say_the_same(one: Part, other: Part) -> bool:
    """Whether a part still says what it came with, whatever it is tainted with by now."""
    if isinstance(one, ToolResultPart) and isinstance(other, ToolResultPart):
        return (one.content, one.is_error) == (other.content, other.is_error)
    return one is other


def _with_results(message: Message, new: Mapping[int, ToolResultPart]) -> Message:
    """Return `message` with its results as they are now."""
    if not message.tool_results:
        return message
    parts: tuple[Part, ...] = tuple(
        new[id(part)] if isinstance(part, ToolResultPart) else part for part in message.parts
    )
    taint = message.taint.union(*[part.taint for part in parts if isinstance(part, ToolResultPart)])
    made = replace(message, parts=parts, taint=taint)
    return came_as(made, message.raw) if all(map(_say_the_same, message.parts, parts)) else made


def read_history(request: TurnRequest, brought: Brought) -> tuple[Message, ...]:
    """Return what was said before, its results and documents tainted as foreign."""
    taint = CLEAN if request.clean_results else FOREIGN
    return tuple(with_taint(message, taint) for message in brought.history)

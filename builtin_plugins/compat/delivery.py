"""One answer on its way to its client: what its turn says, in the frames of the client's wire.

A turn tells its events as they come, and they are written there and then, without another task
that would have to wake up for each of them. Only before the first one, behind the last one and
while a slow reader has not taken what was written, the request's own task is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from aiohttp import web

from hookgate import (
    BUDGETS,
    QUESTIONS,
    Event,
    EventStream,
    Host,
    ModelRef,
    StoreError,
    Turn,
    TurnHandle,
    TurnKey,
)
from hookgate.builtin_plugins.compat.answers import (
    ClientWire,
    WireFrame,
    Written,
    behind_white_space,
    interrupted,
    request_id,
)
from hookgate.builtin_plugins.compat.fields import Asked
from hookgate.builtin_plugins.compat.settings import DENIED
from hookgate.builtin_plugins.compat.wires.responses_writer import ResponsesWriter
from hookgate.clients import describe_error
from hookgate.ports import RateLeft
from hookgate.wire import TextFrames, dumps

if TYPE_CHECKING:
    from hookgate.builtin_plugins.compat.guard import Guard
    from hookgate.builtin_plugins.compat.kept.responses import ResponseKeeper

LOOK = 0.5
"""Seconds between two looks at whether the client is still there."""

GAP = "\n\n"
"""What stands between the texts of two rounds, which are one answer to the client."""

PING = 10.0
"""Seconds between two signs of life."""

RAN: TurnKey[ModelRef] = TurnKey("compat model")
"""The model that was asked last, of several that one name stands for."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A line of a stream that clients pass over."""

    text: str


class AnswerDelivery:
    """Brings one answer to its client.

    Args:
        guard: Whose answer it is.
        request: The client's request.
        wire: The wire that the client speaks.
        asked: What it asks.
        keeper: Keeps the answer for its client; None where nothing is kept.
    """

    def __init__(
        self,
        guard: Guard,
        request: web.Request,
        wire: ClientWire,
        asked: Asked,
        keeper: ResponseKeeper | None = None,
    ) -> None:
        self._guard = guard
        self._host = guard.host
        self._request = request
        self._wire = wire
        self._writer = wire.writer(asked)
        self._keeper = keeper
        self.streamed = asked.stream
        self._stream: EventStream | None = None
        self._frames: list[Written | Comment] = []
        """What is still to be sent."""
        self._held: list[Event] | None = None
        """The answer's text, where it is looked at as a whole before it is shown."""
        self._between = False
        """Whether a round of the model's has ended since it has said something."""
        self._said = 0
        """Characters of the answer so far."""
        self._before = 0
        """Those in front of this round's."""
        self._retried = False
        """Whether the gateway has asked a model again that had failed."""
        self._begun = False
        self._ended = False
        self._gone = False
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._limits: list[asyncio.TimerHandle] = []
        self._ping: asyncio.TimerHandle | None = None

    def follow(self, handle: TurnHandle, *, watched: bool = True) -> None:
        """Take what a turn comes to, too; what becomes of it without its client is settled here.

        Args:
            handle: The turn.
            watched: Whether it ends once its client has gone.
        """
        self._handle = handle
        handle.detach()
        handle.task.add_done_callback(lambda _: self._over())
        self._watched = watched
        if watched:
            self._look()
        if self._wire.pings and self.streamed:
            self._quiet()

    def hold(self) -> None:
        """Show no text before all of it is there."""
        self._held = []

    # -- what the turn says ------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Take an event of the turn; never waits."""
        if self._gone or self._failure is not None:
            return
        try:
            if event.type == "model_ended":
                self._between = True
            elif event.type == "attempt_failed" and event.data["retry_in"] is not None:
                self._retried = True
            elif event.type == "text" and event.data["text"]:
                if self._between:
                    self._part(event)
                self._said += len(event.data["text"])
            elif event.type == "citation":
                # It counts in the text of its own round.
                at = {one: event.data[one] + self._before for one in ("start", "end")}
                event = replace(event, data={**event.data, **at})
            if self._held is not None and event.type in ("text", "citation"):
                self._held.append(event)
                return
            if event.type == "approval" and (asked := self._asked(event)):
                self._frames.append(Comment(f"approval {asked}"))
            self._frames += self._writer.take(event)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            self._failure = error
        if self._frames or self._failure:
            self._tell()

    def _part(self, event: Event) -> None:
        """Part the text that begins now from that of the round before it."""
        self._between = False
        if self._held is not None:
            # What is looked at is the last one alone, and so that is what is shown.
            self._held.clear()
            self._said = 0
        elif gap := self._gap(event.data["text"]):
            self._frames += self._writer.take(replace(event, data={"text": gap}, value=None))
            self._said += len(gap)
        self._before = self._said

    def _gap(self, text: str) -> str:
        """Return what parts a text from what was said before it; "" for nothing."""
        said = (one.text for one in reversed(self._handle.turn.messages) if one.role == "assistant")
        before = next((one for one in said if one), "")
        return GAP if before and not (before[-1].isspace() or text[0].isspace()) else ""

    def _tell(self) -> None:
        """Send what there is; leave it to the request's task where that has to be waited for."""
        self._begun = True
        stream = self._stream
        if stream is not None and not stream.waiting and self._failure is None:
            self._pass_on(stream)
        elif self.streamed:
            self._news.set()

    def _pass_on(self, stream: EventStream) -> None:
        """Send all that there is as one piece."""
        frames, self._frames = self._frames, []
        events: list[tuple[str, bytes | TextFrames]] = []
        for frame in frames:
            if isinstance(frame, Comment):
                stream.comment(frame.text)
                continue
            if isinstance(frame, TextFrames):
                one: Mapping[str, Any] = frame.form.frame
                data: bytes | TextFrames = frame
            else:
                one, data = frame, dumps(frame)
            events.append((self._wire.name_of(one), data))
        stream.put_all(events)

    def _over(self) -> None:
        if self._ping is not None:
            self._ping.cancel()
        self._news.set()

    def _quiet(self) -> None:
        """Give a sign of life."""
        if self._begun and not self._gone:
            self._frames.append({"type": "ping"})
            self._tell()
        self._ping = asyncio.get_running_loop().call_later(PING, self._quiet)

    # -- as a whole, or while it comes -------------------------------------------------------

    async def whole(self, headers: Mapping[str, str]) -> web.StreamResponse:
        """Return the answer in one piece.

        Raises:
            Exception: What the turn ended with, where nothing of an answer was sent.
        """

        async def answer() -> web.Response:
            frames = [frame async for piece in self.pieces() for frame in piece]
            return self._wire.whole(frames, self.with_model(headers))

        seconds = self._guard.settings.white_space_seconds
        return await behind_white_space(self._request, headers, answer(), seconds, self._host)

    async def behind(self, hear: Callable[[list[WireFrame]], None]) -> WireFrame:
        """Take the answer to its end without its client; return it, also where it has failed.

        Args:
            hear: Is told what is written, as it comes.
        """
        frames: list[WireFrame] = []
        try:
            async for piece in self.pieces():
                frames += piece
                hear(piece)
        except Exception as error:  # noqa: BLE001 - the client is told when it asks
            told = describe_error(self._host, error)
            last = list(self._writer.fail(told, request_id(self._request)))
            frames += last
            hear(last)
        return self._wire.fold(frames)

    async def pieces(self) -> AsyncIterator[list[WireFrame]]:
        """Yield what is written, as it comes, for more readers than one.

        Raises:
            Exception: What the turn ended with.
        """
        try:
            while await self._more():
                frames, self._frames = self._frames, []
                if said := _parsed(frames):
                    yield said
        finally:
            self._close()

    async def failed(self, error: Exception) -> list[WireFrame]:
        """Return the last frames of an answer that has failed after its beginning."""
        told = describe_error(self._host, error)
        frames = list(self._writer.fail(told, request_id(self._request)))
        await self._keep(frames)
        return frames

    def head(self) -> WireFrame:
        """Return what is known of a response of the Responses API before it has begun."""
        assert isinstance(self._writer, ResponsesWriter), "no other wire asks for it later"
        return self._writer.head()

    def upstream(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of the answers that a response was made of, by who keeps them."""
        if not isinstance(self._writer, ResponsesWriter):
            return {}
        self._writer.made_by(self._handle.turn[RAN].provider)
        return self._writer.came_from

    def queued(self) -> list[WireFrame]:
        """Return the first events of one that is streamed; they name it."""
        assert isinstance(self._writer, ResponsesWriter), "no other wire asks for it later"
        return self._writer.queued()

    async def stream(self, headers: Mapping[str, str]) -> web.StreamResponse:
        """Send the answer while it comes.

        Raises:
            Exception: What the turn ended with before anything of an answer had come.
        """
        try:
            await self._more()
            headers = self.with_model(headers)
            async with EventStream(self._request, headers=headers) as stream:
                await self._send(stream)
        finally:
            self._close()
        self.leave()
        return stream.response

    def with_model(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of an answer, with the model that gave it."""
        turn = self._handle.turn
        return {**headers, "x-hookgate-model": str(turn[RAN]), **dropped_header(turn)}

    async def _send(self, stream: EventStream) -> None:
        self._stream = stream
        try:
            while await self._more():
                await stream.flush()
                self._pass_on(stream)
        except ConnectionResetError:
            raise
        except Exception as error:  # noqa: BLE001 - the client is told in its wire's form
            self._frames += await self.failed(error)
            await stream.flush()
            self._pass_on(stream)
        else:
            if self._wire.last:
                await stream.send(self._wire.last)
        finally:
            self._close()

    async def _more(self) -> bool:
        """Wait until there is something to send; False where the answer is over.

        Raises:
            Exception: What the turn ended with.
        """
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            if not self._handle.over:
                self._news.clear()
                await self._news.wait()
            elif self._ended:
                return False
            else:
                self._ended = True
                await self._end()
        return True

    async def _end(self) -> None:
        """Take the end of the answer.

        Raises:
            Exception: What the turn ended with.
        """
        turn = await self._handle.wait()
        refused = turn.error is not None and turn.error.code == DENIED
        if turn.ending == "cancelled" and not self._host.ready:
            raise interrupted()
        if turn.error is not None and not refused:
            # Asked once more, it would be tried as often again, and run its tools anew.
            turn.error.data["retried"] = self._retried or bool(turn.calls)
            raise turn.error
        said = str(turn.error) if refused else ""
        before: Turn | None = None
        if self._held is not None:
            if not refused and (again := self._guard.again(turn, self.take)):
                before, turn = turn, await self._once_more(again)
            for event in self._held:
                self._frames += self._writer.take(event)
        await self._guard.keep(turn, said, before, last_alone=self._held is not None)
        if before is not None:
            # The client pays for both.
            turn = copy(turn)
            turn.usage = before.usage + turn.usage
        last = list(self._writer.end(turn, self._gap(said) + said if said else ""))
        await self._keep(last)
        self._frames += last

    async def _once_more(self, handle: TurnHandle) -> Turn:
        """Return what came of asking once more; see `Guard.again`.

        Raises:
            Exception: What the turn ended with.
        """
        self._held = []
        self._handle = handle
        handle.detach()
        if self._watched:
            self._look()
        turn = await handle.wait()
        if turn.error is not None:
            raise turn.error
        self._guard.check_again(turn)
        return turn

    async def _keep(self, last: Sequence[WireFrame]) -> None:
        """Keep the answer before its client hears that it is whole."""
        if self._keeper is not None and not self._keeper.background and last:
            self._keeper.upstream = self.upstream()
            await self._keeper.end(last[-1]["response"])

    def _close(self) -> None:
        """Take nothing more: the answer is over, or nobody reads it any longer."""
        self._gone = True
        for timer in self._limits:
            timer.cancel()

    # -- who is asked ------------------------------------------------------------------------

    def _asked(self, event: Event) -> str:
        """Return the id of a question that waits from now on, no longer than the client."""
        question = event.data.get("id")
        if event.data.get("state") != "pending" or not isinstance(question, str):
            return ""
        loop = asyncio.get_running_loop()
        end = loop.call_later(self._guard.held(self._request), self._expire, question)
        self._limits.append(end)
        return question

    def _expire(self, question: str) -> None:
        async def end() -> None:
            with suppress(StoreError):
                why = "the client waits no longer"
                await self._host[QUESTIONS].end(question, "expired", why)

        self._host.spawn(end(), name=f"compat: end {question}")

    # -- the client --------------------------------------------------------------------------

    def _look(self) -> None:
        """See to whether the client is still there, while its turn runs."""
        if self._handle.over:
            return
        transport = self._request.transport
        if transport is None or transport.is_closing():
            self.leave()
            return
        asyncio.get_running_loop().call_later(LOOK, self._look)

    def leave(self) -> None:
        """End the turn of a client that has gone, where the settings have it so."""
        if self._guard.settings.cancel_on_disconnect:
            self._handle.cancel("its client has gone")


def _parsed(frames: Sequence[Written | Comment]) -> list[WireFrame]:
    """Return frames for whoever reads them."""
    found: list[WireFrame] = []
    for frame in frames:
        if isinstance(frame, TextFrames):
            data = frame.data
            found += data if isinstance(data, list) else [data]
        elif not isinstance(frame, Comment):
            found.append(frame)
    return found


# -- fields that were dropped on the way -------------------------------------------

# All others are a 400 that names them: nothing is lost that nobody has listed.


DROPPED: TurnKey[tuple[str, ...]] = TurnKey("compat dropped")
"""The fields that the model which was asked last was not told."""
TOLD: TurnKey[ModelRef] = TurnKey("compat dropped for")


def without_dropped(asked: Asked, wire: ClientWire, listed: Collection[str]) -> Asked:
    """Return a request without the fields in `listed`, for models of other wires.

    Its body stays as it came: a model of the same wire is sent that one. A tool that a provider
    runs is no field, so none is dropped.
    """
    if not listed:
        return asked
    own = [name for name, value in asked.body.items() if name in listed and value is not None]
    inner = [place for place in asked.foreign if "." in place and _name(place) in listed]
    if not (own or inner):
        return asked
    left = wire.read({name: value for name, value in asked.body.items() if name not in own})
    return replace(
        asked,
        parameters=left.parameters,
        foreign=tuple(place for place in left.foreign if _name(place) not in listed),
        dropped=(*own, *inner),
    )


def tell_dropped(
    host: Host, turn: Turn, asked: Asked, model: ModelRef
) -> Coroutine[Any, Any, None] | None:
    """Note that fields are dropped on the way to a model; return what records it, once for each."""
    if turn.get(TOLD) == model:
        return None
    data = {
        "turn": turn.id,
        "session": str(turn.session),
        "principal": turn.principal.id,
        "model": str(model),
        "fields": list(asked.dropped),
    }
    turn[DROPPED], turn[TOLD] = asked.dropped, model
    host.log.info("fields of a request dropped", **data)
    return host.record("compat_dropped", **data)


def forget_dropped(turn: Turn) -> None:
    """Note that the model which is asked now is told all."""
    if DROPPED in turn:
        turn[DROPPED] = ()


def dropped_header(turn: Turn) -> dict[str, str]:
    """Return the header that tells a client which of its fields were dropped."""
    dropped: tuple[str, ...] = turn.get(DROPPED, ())
    names = dict.fromkeys(map(_name, dropped))
    # Whatever the client has called them: a header takes plain words alone.
    plain = [name for name in names if name.isascii() and name.isprintable()]
    return {"x-hookgate-dropped": ", ".join(plain)} if plain else {}


def _name(place: str) -> str:
    return place.rpartition(".")[2]


# -- what is left of a client's rates ----------------------------------------------


async def limit_headers(host: Host, turn: Turn, *, anthropic: bool) -> dict[str, str]:
    """Return the headers of an answer that say what is left; none where nothing limits the turn.

    Args:
        host: The host.
        turn: The turn of the request, whose own calls may not be counted yet.
        anthropic: Whether Anthropic's clients read them.
    """
    budgets = host.get(BUDGETS)
    if budgets is None:
        return {}
    try:
        rates = await budgets.rates(turn)
    except StoreError:
        return {}  # The call itself is refused then, and says why.
    return anthropic_limits(rates, host.clock.now()) if anthropic else openai_limits(rates)


def openai_limits(rates: Sequence[RateLeft]) -> dict[str, str]:
    """Return ``x-ratelimit-*``."""
    headers: dict[str, str] = {}
    for rate in rates:
        headers[f"x-ratelimit-limit-{rate.unit}"] = str(rate.limit)
        headers[f"x-ratelimit-remaining-{rate.unit}"] = str(rate.left)
        headers[f"x-ratelimit-reset-{rate.unit}"] = f"{rate.seconds:.0f}s"
    return headers


def anthropic_limits(rates: Sequence[RateLeft], now: datetime) -> dict[str, str]:
    """Return ``anthropic-ratelimit-*``."""
    headers: dict[str, str] = {}
    for rate in rates:
        reset = (now + timedelta(seconds=rate.seconds)).astimezone(UTC)
        headers[f"anthropic-ratelimit-{rate.unit}-limit"] = str(rate.limit)
        headers[f"anthropic-ratelimit-{rate.unit}-remaining"] = str(rate.left)
        headers[f"anthropic-ratelimit-{rate.unit}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
    return headers

"""Mode guard: a client's request is a turn, and the answer is what its upstream said.

Nothing of the gateway's own is added. All hooks run: what a model may cost, which calls may run
and what is on record is as in every other turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from aiohttp import web

from hookgate import (
    QUESTIONS,
    Address,
    Event,
    EventStream,
    Host,
    ModelRef,
    ModelRequest,
    Origin,
    Principal,
    Provenance,
    Refusal,
    StoreError,
    Turn,
    TurnHandle,
    TurnKey,
    TurnRequest,
    new_id,
    principal_of,
    upper_bound,
)
from hookgate.builtin_plugins.compat.answers import WireFrame, Writer
from hookgate.builtin_plugins.compat.errors import (
    id_headers,
    is_anthropic,
    request_id,
)
from hookgate.builtin_plugins.compat.fields import Asked, bad, json_object
from hookgate.builtin_plugins.compat.limits import limit_headers
from hookgate.builtin_plugins.compat.models import (
    Models,
    anthropic_model,
    anthropic_models,
    openai_model,
    openai_models,
)
from hookgate.builtin_plugins.compat.settings import DENIED, NOT_CARRIED, CompatSettings
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.builtin_plugins.compat.wires.chat_writer import DONE, ChatWriter
from hookgate.builtin_plugins.compat.wires.chat_writer import fold as fold_chat
from hookgate.builtin_plugins.compat.wires.messages_writer import MessagesWriter
from hookgate.builtin_plugins.compat.wires.messages_writer import fold as fold_messages
from hookgate.builtin_plugins.compat.wires.responses_writer import ResponsesWriter
from hookgate.builtin_plugins.compat.wires.responses_writer import fold as fold_responses
from hookgate.clients import describe_error, wire_error
from hookgate.wire import Raw, dumps

BODY_SECONDS = 120.0
"""Seconds that a body may take to arrive."""

LOOK = 0.5
"""Seconds between two looks at whether the client is still there."""

PING = 10.0
"""Seconds of silence after which a client of Messages gets a `ping`."""

SPARE = 5.0
"""Seconds before a client would give up in which it is still answered."""

DENIED_ROUNDS = 3
"""Rounds in which a model has its calls denied; then the turn ends."""

SESSION_HEADERS = ("x-claude-code-session-id", "session-id")
LONGEST_SESSION = 200

BETAS = ("anthropic-beta", "openai-beta")
"""The headers that say how a body is meant."""

ASKED: TurnKey[Asked] = TurnKey("compat request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One wire, as clients speak it.

    Attributes:
        provider: The setting that names the provider of models without one.
        read: Reads a request.
        writer: Makes the writer of an answer.
        fold: Makes one answer of frames.
        named: Whether each event has its type as its name.
        last: What ends a stream that is whole.
    """

    provider: str
    read: Callable[[dict[str, Any]], Asked]
    writer: Callable[[Asked], Writer]
    fold: Callable[[Iterable[WireFrame]], WireFrame]
    named: bool
    last: str


CHAT = Wire(
    provider="openai",
    read=chat_reader.read,
    writer=lambda asked: ChatWriter(asked.model, usage=asked.usage or not asked.stream),
    fold=fold_chat,
    named=False,
    last=DONE,
)
MESSAGES = Wire(
    provider="anthropic",
    read=messages_reader.read,
    writer=lambda asked: MessagesWriter(asked.model),
    fold=fold_messages,
    named=True,
    last="",
)

RESPONSES = Wire(
    provider="openai",
    read=responses_reader.read,
    writer=ResponsesWriter,
    fold=fold_responses,
    named=True,
    last="",
)


MODE = "guard"
"""What a request is asked in, and what a key may be held to."""


class Feed:
    """The events of one turn for whoever writes its answer; None where there was silence."""

    def __init__(self) -> None:
        self._waiting: deque[Event | None] = deque()
        self._ready = asyncio.Event()
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._quiet()

    def put(self, event: Event | None) -> None:
        """Take an event; never waits."""
        self._waiting.append(event)
        self._ready.set()

    def end(self) -> None:
        """Nothing follows."""
        self._over = True
        self._ready.set()
        if self._timer is not None:
            self._timer.cancel()

    def _quiet(self) -> None:
        self.put(None)
        self._timer = asyncio.get_running_loop().call_later(PING, self._quiet)

    async def __aiter__(self) -> AsyncIterator[Event | None]:
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._over:
                return
            self._ready.clear()
            await self._ready.wait()


@dataclass(frozen=True, slots=True)
class Comment:
    """A line of a stream that clients pass over."""

    text: str


class Guard:
    """Answers requests of the vendors' wires.

    Args:
        host: The host.
        settings: The plugin's settings.
    """

    def __init__(self, host: Host, settings: CompatSettings) -> None:
        self.host = host
        self.settings = settings
        self.models = Models(host, settings)

    def use(self, settings: CompatSettings) -> None:
        """Take over changed settings."""
        self.settings = settings
        self.models = Models(self.host, settings)

    # -- the routes ------------------------------------------------------------------

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Serve ``/v1/chat/completions``."""
        return await self._answer(request, CHAT)

    async def responses(self, request: web.Request) -> web.StreamResponse:
        """Serve ``/v1/responses``."""
        return await self._answer(request, RESPONSES)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Serve ``/v1/messages``."""
        return await self._answer(request, MESSAGES)

    async def count(self, request: web.Request) -> web.StreamResponse:
        """Serve ``/v1/messages/count_tokens``: never less than the request takes."""
        asked = messages_reader.read(json_object(await _body(request)), counts=True)
        ref = self._ref(principal_of(request), asked, MESSAGES)
        counted = ModelRequest(
            model=ref, system=asked.system, messages=asked.messages, tools=asked.tools
        )
        bound = getattr(self.host.providers[ref.provider], "bound", upper_bound)
        headers = {**id_headers(request), "x-hookgate-counted": "upper-bound"}
        return _json({"input_tokens": bound(counted)}, headers)

    async def list_models(self, request: web.Request) -> web.Response:
        """Serve the list of models in the form of the vendor whose SDK asks."""
        found = self.models.named(principal_of(request))
        made = anthropic_models(found) if is_anthropic(request) else openai_models(found)
        return _json(made, id_headers(request))

    async def one_model(self, request: web.Request) -> web.Response:
        """Serve one model."""
        name = request.match_info["model"]
        info = self.models.named(principal_of(request)).get(name)
        if info is None:
            raise wire_error("unknown_model", f"there is no model {name[:200]!r}", param="model")
        make = anthropic_model if is_anthropic(request) else openai_model
        return _json(make(name, info), id_headers(request))

    # -- from a request to a turn ------------------------------------------------------

    async def _answer(self, request: web.Request, wire: Wire) -> web.StreamResponse:
        asked = wire.read(json_object(await _body(request)))
        principal = principal_of(request)
        ref = self._ref(principal, asked, wire)
        self._check(principal, asked, ref)
        feed = Feed()
        try:
            handle = self.host.start_turn(
                principal,
                Origin(provenance=Provenance.EXTERNAL_USER, path="compat"),
                self._request(request, principal, asked, ref),
                sink=feed.put,
            )
        except BaseException:
            feed.end()
            raise
        handle.turn[ASKED] = asked
        # What becomes of it when its client leaves is settled here.
        handle.detach()
        handle.task.add_done_callback(lambda _: feed.end())
        headers = {
            **id_headers(request),
            "x-hookgate-turn": handle.turn.id,
            "x-hookgate-model": str(ref),
            **await limit_headers(self.host, handle.turn, anthropic=wire is MESSAGES),
        }
        answer = GuardedAnswer(self, request, wire, asked, handle, feed)
        if asked.stream:
            return await answer.stream(headers)
        return await answer.whole(headers)

    def _ref(self, principal: Principal, asked: Asked, wire: Wire) -> ModelRef:
        ref = self.models.ref(asked.model, getattr(self.settings, wire.provider))
        if not principal.may_use_model(ref):
            raise wire_error(
                "forbidden",
                f"{principal.id} may not use {asked.model[:200]!r}",
                action="name a model that GET /v1/models lists",
                param="model",
            )
        return ref

    def _check(self, principal: Principal, asked: Asked, ref: ModelRef) -> None:
        """Refuse what nobody could judge, and what the model's wire cannot carry.

        Raises:
            WireError: There is such a thing.
        """
        modes = principal.claims.get("modes")
        if modes is not None and MODE not in modes:
            raise wire_error(
                "forbidden",
                f"{principal.id} may not ask in the mode {MODE!r}: it has "
                f"{', '.join(modes) or 'none'}",
                action="name a model of one of its modes, or have its key changed",
            )
        allowed = principal.claims.get("provider_tools", self.settings.provider_tools)
        for kind in asked.hosted:
            if not any(fnmatchcase(kind, glob) for glob in allowed):
                raise bad(
                    "tools",
                    f"found {kind!r}, which the provider runs, so that its calls cannot be judged",
                    action="leave it out, or name it in `provider_tools` of the key",
                )
        for name in asked.substitutes:
            other = ModelRef(ref.provider, name)
            if not principal.may_use_model(other):
                raise wire_error(
                    "forbidden",
                    f"{principal.id} may not use {str(other)[:200]!r}, which could answer instead",
                    action="leave it out",
                    param="fallbacks" if asked.wire == messages_reader.WIRE else "models",
                )
        if (why := self.not_carried(asked, ref)) is not None:
            raise bad(
                why, f"{ref} speaks another wire, which cannot carry it", action="leave it out"
            )

    def not_carried(self, asked: Asked, ref: ModelRef) -> str | None:
        """Return what of a request cannot go to a model; None where all of it can."""
        if self.models.wire(ref) == asked.wire:
            return None
        left = (*asked.foreign, *asked.hosted)
        return left[0] if left else None

    def _request(
        self, request: web.Request, principal: Principal, asked: Asked, ref: ModelRef
    ) -> TurnRequest:
        return TurnRequest(
            content="",
            address=_address(principal, _session(request, asked)),
            client_tools=asked.tools,
            client_history=asked.messages,
            model=str(ref),
            parameters=asked.parameters,
            system=asked.system,
            ephemeral=True,
            verbatim=True,
            raw=Raw(wire=asked.wire, data=asked.body, headers=_betas(request)),
            whole=not asked.stream,
        )

    # -- within the turn -----------------------------------------------------------------

    def refusal(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        """Refuse a model that was denied its calls too often, or that cannot take the request."""
        asked = turn.get(ASKED)
        if asked is None or request.cause != "turn":
            return None
        if request.iteration >= DENIED_ROUNDS:
            why = next(
                (call.decision.reason for call in reversed(turn.calls) if call.decision.reason), ""
            )
            return Refusal(
                code=DENIED,
                message=f"Stopped by the gateway: {DENIED_ROUNDS} times the model called a tool, "
                f"and the call was denied: {why}",
            )
        if (name := self.not_carried(asked, request.model)) is not None:
            return Refusal(
                code=NOT_CARRIED,
                message=f"`{name}`: {request.model} speaks another wire, which cannot carry it",
                action="leave it out",
            )
        return None

    def held(self, request: web.Request) -> float:
        """Return how many seconds somebody who is asked has at most."""
        on_ask = principal_of(request).claims.get("on_ask", self.settings.on_ask)
        if on_ask == "refuse":
            return 0.0
        limits = [self.settings.hold_seconds]
        for name in ("x-stainless-read-timeout", "x-stainless-timeout"):
            # An SDK that has none writes words there.
            with suppress(ValueError):
                limits.append(max(float(request.headers.get(name, "")) - SPARE, 0.0))
        return min(limits)


class GuardedAnswer:
    """One answer on its way to its client."""

    def __init__(
        self,
        guard: Guard,
        request: web.Request,
        wire: Wire,
        asked: Asked,
        handle: TurnHandle,
        feed: Feed,
    ) -> None:
        self._guard = guard
        self._host = guard.host
        self._request = request
        self._wire = wire
        self._writer = wire.writer(asked)
        self._handle = handle
        self._feed = feed
        self._limits: list[asyncio.TimerHandle] = []
        self._look()

    # -- as a whole, or while it comes ---------------------------------------------------

    async def whole(self, headers: Mapping[str, str]) -> web.Response:
        """Return the answer in one piece.

        Raises:
            Exception: What the turn ended with.
        """
        frames = [one async for one in self._frames() if isinstance(one, dict)]
        return _json(self._wire.fold(frames), headers)

    async def stream(self, headers: Mapping[str, str]) -> web.StreamResponse:
        """Send the answer while it comes.

        Raises:
            Exception: What the turn ended with before anything of an answer had come.
        """
        async with aclosing(self._frames()) as frames:
            first = await anext(frames)
            async with EventStream(self._request, headers=headers) as stream:
                await self._send(stream, first)
                try:
                    async for frame in frames:
                        await self._send(stream, frame)
                except Exception as error:
                    if isinstance(error, ConnectionResetError):
                        raise
                    told = describe_error(self._host, error)
                    for frame in self._writer.fail(told, request_id(self._request)):
                        await self._send(stream, frame)
                else:
                    if self._wire.last:
                        await stream.send(self._wire.last)
        self._leave()
        return stream.response

    async def _send(self, stream: EventStream, frame: WireFrame | Comment) -> None:
        if isinstance(frame, Comment):
            stream.comment(frame.text)
            return
        event = str(frame.get("type", "")) if self._wire.named else ""
        await stream.send(dumps(frame), event=event)

    async def _frames(self) -> AsyncGenerator[WireFrame | Comment, None]:
        """Yield what the client is sent.

        Raises:
            Exception: What the turn ended with.
        """
        writer, begun = self._writer, False
        try:
            async for event in self._feed:
                if event is None:
                    if begun and self._wire is MESSAGES:
                        yield {"type": "ping"}
                    continue
                if event.type == "approval" and (asked := self._asked(event)):
                    begun = True
                    yield Comment(f"approval {asked}")
                for frame in writer.take(event):
                    begun = True
                    yield frame
            turn = await self._handle.wait()
            refused = turn.error is not None and turn.error.code == DENIED
            if turn.ending == "cancelled" and not self._host.ready:
                # Another gateway takes it, or this one once it is there again.
                raise wire_error(
                    "stopping",
                    "the gateway stops, and the answer was not whole",
                    action="send it again in a moment",
                    retry_after=1,
                )
            if turn.error is not None and not refused:
                raise turn.error
            for frame in writer.end(turn, str(turn.error) if refused else ""):
                yield frame
        finally:
            for timer in self._limits:
                timer.cancel()

    # -- who is asked ----------------------------------------------------------------------

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
            self._leave()
            return
        asyncio.get_running_loop().call_later(LOOK, self._look)

    def _leave(self) -> None:
        if self._guard.settings.cancel_on_disconnect:
            self._handle.cancel("its client has gone")


def _betas(request: web.Request) -> tuple[tuple[str, str], ...]:
    return tuple((name, request.headers[name]) for name in BETAS if name in request.headers)


def _session(request: web.Request, asked: Asked) -> str:
    named = (request.headers.get(name, "") for name in SESSION_HEADERS)
    found = next((one for one in named if one), asked.session)
    if len(found) > LONGEST_SESSION:
        raise bad("", f"found a session of {len(found)} characters, expected 200 at most")
    return found or new_id("once")


def _address(principal: Principal, session: str) -> Address:
    """Return where a client speaks: within what its key is bound to, in a session of its own."""
    own = Address("compat", principal.key or principal.id, session)
    if principal.may_claim(own) or not principal.bindings:
        return own
    claim = principal.bindings[0]
    return Address(
        own.channel if claim.channel == "*" else claim.channel,
        own.account if claim.account == "*" else claim.account,
        own.peer if claim.peer == "*" else claim.peer,
    )


async def _body(request: web.Request) -> bytes:
    """Return a request's body.

    A page of another origin can send a plain form without asking first, but not this type.

    Raises:
        WireError: It is too slow, or says that it is something else.
    """
    coded = request.headers.get("content-encoding", "identity").lower()
    if request.content_type != "application/json" or coded != "identity":
        raise wire_error(
            "unsupported_media_type",
            "found a body that does not say it is plain JSON",
            action="send `Content-Type: application/json` and no Content-Encoding",
        )
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise wire_error("timeout", f"the body did not come in {BODY_SECONDS:g} s") from None


def _json(body: object, headers: Mapping[str, str]) -> web.Response:
    return web.Response(body=dumps(body), content_type="application/json", headers=headers)

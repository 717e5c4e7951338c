"""Mode guard: a client's request is a turn, and the answer is what its upstream said.

Nothing of the gateway's own is added. All hooks run: what a model may cost, which calls may run
and what is on record is as in every other turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from aiohttp import web

from hookgate import (
    CLEAN,
    Effect,
    Event,
    Host,
    Message,
    ModelRef,
    ModelRequest,
    Origin,
    Principal,
    Provenance,
    Refusal,
    StoreError,
    TokenCount,
    Turn,
    TurnHandle,
    TurnKey,
    TurnRequest,
    WireError,
    new_id,
    principal_of,
    upper_bound,
)
from hookgate.builtin_plugins.compat import embeddings
from hookgate.builtin_plugins.compat.answers import (
    ClientWire,
    id_headers,
    is_anthropic,
)
from hookgate.builtin_plugins.compat.delivery import (
    RAN,
    AnswerDelivery,
    forget_dropped,
    limit_headers,
    tell_dropped,
    without_dropped,
)
from hookgate.builtin_plugins.compat.fields import BROUGHT_TAINT, Asked, bad, json_object
from hookgate.builtin_plugins.compat.kept import Shelf, idempotency
from hookgate.builtin_plugins.compat.kept.responses import KeptResponses, ResponseKeeper
from hookgate.builtin_plugins.compat.kept.rounds import (
    Conversation,
    HiddenRounds,
    Restored,
    in_a_round,
    is_hidden,
    made_in,
    without_thoughts,
)
from hookgate.builtin_plugins.compat.models import (
    Models,
    address_of,
    anthropic_model,
    anthropic_models,
    openai_model,
    openai_models,
)
from hookgate.builtin_plugins.compat.modes import (
    AGENT,
    GUARD,
    HEADER,
    Meant,
    agent_request,
    asked_again,
    check_again,
    check_choice,
    check_mode,
    meant,
    misfit,
    schema_of,
)
from hookgate.builtin_plugins.compat.settings import DENIED, LOST, NOT_CARRIED, CompatSettings
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.builtin_plugins.compat.wires.chat_writer import DONE, ChatWriter
from hookgate.builtin_plugins.compat.wires.chat_writer import fold as fold_chat
from hookgate.builtin_plugins.compat.wires.messages_writer import MessagesWriter
from hookgate.builtin_plugins.compat.wires.messages_writer import fold as fold_messages
from hookgate.builtin_plugins.compat.wires.responses_writer import ResponsesWriter
from hookgate.builtin_plugins.compat.wires.responses_writer import fold as fold_responses
from hookgate.clients import wire_error
from hookgate.wire import Raw, dumps

BODY_SECONDS = 120.0
"""Seconds that a body may take to arrive."""

SPARE = 5.0
"""Seconds before a client would give up in which it is still answered."""

DENIED_ROUNDS = 3
"""Rounds in which a model has its calls denied; then the turn ends."""

LEAVE_OUT = "leave it out, or have it dropped: `drop` in [plugin.compat]"

SESSION_HEADERS = ("x-claude-code-session-id", "session-id")
LONGEST_SESSION = 200

FREE_TEXT = (chat_reader.WIRE, responses_reader.WIRE)
"""The wires that have tools which are called in free text."""

BETAS = ("anthropic-beta", "openai-beta")
"""The headers that say how a body is meant."""

ASKED: TurnKey[Asked] = TurnKey("compat request")
WANTED: TurnKey[TurnRequest] = TurnKey("compat turn request")
KNOWN: TurnKey[bool] = TurnKey("compat session")
"""Whether the session of an answer is known by that answer alone."""


CHAT = ClientWire(
    provider="openai",
    read=chat_reader.read,
    writer=lambda asked: ChatWriter(
        asked.model,
        usage=asked.usage or not asked.stream,
        custom=asked.custom if asked.free_text else (),
        stops=asked.parameters.stop,
    ),
    fold=fold_chat,
    named=False,
    last=DONE,
)
MESSAGES = ClientWire(
    provider="anthropic",
    read=messages_reader.read,
    writer=lambda asked: MessagesWriter(asked.model, stops=asked.parameters.stop),
    fold=fold_messages,
    named=True,
    pings=True,
)

RESPONSES = ClientWire(
    provider="openai",
    read=responses_reader.read,
    writer=ResponsesWriter,
    fold=fold_responses,
    named=True,
)


@dataclass(frozen=True, slots=True)
class Asking:
    """A request, and what is known of it before its turn begins.

    Attributes:
        request: The request.
        wire: The wire that it is of.
        principal: Who asks.
        asked: What it says.
        found: What its model means.
        session: The client's session.
        named: Whether the client has named it.
        keeper: Keeps its answer; None where nothing is kept.
        restored: Its history, with what the client was not shown.
    """

    request: web.Request
    wire: ClientWire
    principal: Principal
    asked: Asked
    found: Meant
    session: str
    named: bool
    keeper: ResponseKeeper | None
    restored: Restored


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
        shelf = Shelf(host)
        self.kept = KeptResponses(host, shelf, settings)
        self.rounds = HiddenRounds(shelf)
        self.answers = idempotency.KeptAnswers(host, shelf, lambda: self.settings)

    def use(self, settings: CompatSettings) -> None:
        """Take over changed settings."""
        self.settings = settings
        self.models = Models(self.host, settings)
        self.kept.settings = settings

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
        principal = principal_of(request)
        found = self._meant(principal, asked, MESSAGES)
        if not found.refs:
            raise bad(
                "model",
                f"{asked.model[:200]!r} is an agent, which sees to what fits its context itself",
                action="ask it without counting",
            )
        ref = found.refs[0]
        headers = id_headers(request)
        tokens = await self._counted_there(request, principal, asked, ref)
        if tokens is None:
            counted = ModelRequest(
                model=ref, system=asked.system, messages=asked.messages, tools=asked.tools
            )
            tokens = getattr(self.host.providers[ref.provider], "bound", upper_bound)(counted)
            headers["x-hookgate-counted"] = "upper-bound"
        return _json({"input_tokens": tokens}, headers)

    async def _counted_there(
        self, request: web.Request, principal: Principal, asked: Asked, ref: ModelRef
    ) -> int | None:
        """Return what the upstream counts, in a turn that asks it for that; None where it cannot.

        Who may refuse a turn or a model call may refuse this: then nothing of it leaves.
        """
        counts = hasattr(self.host.providers[ref.provider], "count")
        if not counts or self.models.wire(ref) != asked.wire:
            return None
        counted: list[int] = []

        def take(event: Event) -> None:
            if isinstance(event.value, TokenCount):
                counted.append(event.value.tokens)

        try:
            self._check(principal, asked, (ref,))
        except WireError:
            return None  # What may not be asked is not counted there, either.
        wanted = TurnRequest(
            content="",
            address=address_of(principal, _session(request, asked.session)),
            client_tools=asked.tools,
            client_history=asked.messages,
            model=str(ref),
            parameters=replace(asked.parameters, max_output_tokens=1),
            system=asked.system,
            ephemeral=True,
            verbatim=True,
            counts=True,
            raw=Raw(wire=asked.wire, data=asked.body, headers=_betas(request)),
        )
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="compat")
        turn = await self.host.start_turn(principal, origin, wanted, sink=take).wait()
        return counted[0] if counted and turn.error is None else None

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        """Serve ``/v1/embeddings``."""
        asked = embeddings.read(json_object(await _body(request)))
        principal = principal_of(request)
        check_mode(principal, "guard")
        session = _session(request, "")
        refs = self.models.refs(asked.model, self.settings.openai, principal, session)
        wanted = TurnRequest(
            **embeddings.as_turn(asked),
            address=address_of(principal, session),
            retries=_retries(request),
            model=tuple(map(str, refs)),
        )
        turn, made = await embeddings.embedded(self.host, principal, asked, wanted)
        headers = {
            **id_headers(request),
            "x-hookgate-turn": turn.id,
            "x-hookgate-model": str(turn.get(RAN, refs[0])),
            **await limit_headers(self.host, turn, anthropic=False),
        }
        body = await embeddings.answer(asked, turn, made)
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def show_response(self, request: web.Request) -> web.StreamResponse:
        """Serve ``GET /v1/responses/ID``."""
        return await self.kept.show(request)

    async def delete_response(self, request: web.Request) -> web.Response:
        """Serve ``DELETE /v1/responses/ID``."""
        return await self.kept.forget(request)

    async def cancel_response(self, request: web.Request) -> web.Response:
        """Serve ``POST /v1/responses/ID/cancel``."""
        return await self.kept.cancel(request)

    async def input_items(self, request: web.Request) -> web.Response:
        """Serve ``GET /v1/responses/ID/input_items``."""
        return await self.kept.items(request)

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

    async def _answer(self, request: web.Request, wire: ClientWire) -> web.StreamResponse:
        body, principal = json_object(await _body(request)), principal_of(request)
        keeper: ResponseKeeper | None = None
        if wire is RESPONSES:
            body, keeper = await self.kept.taken(principal, body)
        asked = wire.read(body)
        if keeper is not None and keeper.told:
            asked = replace(asked, told=keeper.told)
        restored = await self.rounds.restored(principal, asked.messages)
        named = asked.conversation or _named_session(request, asked.session)
        session = named or restored.session or new_id("once")
        found = self._meant(principal, asked, wire, session, request.headers.get(HEADER, ""))
        other = any(self.models.wire(ref) != asked.wire for ref in found.refs)
        if other or found.mode == AGENT:
            asked = without_dropped(asked, wire, self.settings.drop)
        asking = Asking(
            request, wire, principal, asked, found, session, bool(named), keeper, restored
        )
        background = keeper is not None and keeper.background
        one = idempotency.named(request, principal, body, found, background=background)
        if background:
            return await self._in_background(asking, one)
        if one is not None:

            async def begin() -> tuple[AnswerDelivery, Mapping[str, str]]:
                delivery, _, headers = await self._begin(asking, watched=False)
                return delivery, headers

            return await self.answers.answer(request, wire, one, begin, stream=asked.stream)
        delivery, _, headers = await self._begin(asking)
        return await (delivery.stream if asked.stream else delivery.whole)(headers)

    async def _in_background(
        self, asking: Asking, one: idempotency.Named | None
    ) -> web.StreamResponse:
        """Answer with what runs on; a request that is sent again, with what it has begun."""
        assert asking.keeper is not None, "what runs in the background is kept"
        keeper, headers = asking.keeper, id_headers(asking.request)

        async def begin() -> str:
            delivery, handle, told = await self._begin(asking, watched=False)
            headers.update(told)
            return await self.kept.begun(keeper, delivery, handle)

        name, again = (await begin(), False) if one is None else await self.answers.once(one, begin)
        if again:
            headers["idempotent-replayed"] = "true"
        key = asking.principal.id, name
        if asking.asked.stream:
            return await self.kept.streamed(asking.request, key, headers)
        return await self.kept.shown(key, headers, begun=not again)

    async def _begin(
        self, asking: Asking, *, watched: bool = True
    ) -> tuple[AnswerDelivery, TurnHandle, dict[str, str]]:
        """Start the turn of a request; return what brings its answer, the turn, and headers.

        Raises:
            WireError: The mode, or the model, cannot take the request.
        """
        request, asked, wire, found = asking.request, asking.asked, asking.wire, asking.found
        usable = _usable(asked, asking.restored)
        whole = asked if usable is asked.messages else replace(asked, messages=usable)
        wanted = self._request(request, asking.principal, whole, found, asking.session)
        if asking.principal.claims.get("client_tools") == "observe":
            wanted = replace(wanted, observe=True)
        delivery = AnswerDelivery(self, request, wire, asked, asking.keeper)
        handle = self.host.start_turn(
            asking.principal,
            Origin(provenance=Provenance.EXTERNAL_USER, path="compat"),
            wanted,
            sink=delivery.take,
        )
        handle.turn[ASKED], handle.turn[WANTED] = asked, wanted
        if found.mode == AGENT and schema_of(asked) is not None:
            delivery.hold()
        if found.mode != GUARD and not asking.named:
            handle.turn[KNOWN] = True
        handle.turn[RAN] = handle.turn.plan.models[0]
        delivery.follow(handle, watched=watched)
        headers = {
            **id_headers(request),
            "x-hookgate-turn": handle.turn.id,
            "x-hookgate-mode": found.mode,
            **await limit_headers(self.host, handle.turn, anthropic=wire is MESSAGES),
        }
        return delivery, handle, headers

    def _meant(
        self,
        principal: Principal,
        asked: Asked,
        wire: ClientWire,
        session: str = "",
        wanted: str = "",
    ) -> Meant:
        provider = getattr(self.settings, wire.provider)
        return meant(self.models, principal, asked.model, provider, session, wanted)

    def _carrying(self, asked: Asked, refs: Sequence[ModelRef]) -> Sequence[ModelRef]:
        """Return the models that can take all of a request.

        Raises:
            WireError: There is none: the first one says what it cannot take.
        """
        left = [self.not_carried(asked, ref) for ref in refs]
        able = [ref for ref, why in zip(refs, left, strict=True) if why is None]
        if not able:
            told = f"{refs[0]} speaks another wire, which cannot carry it"
            raise bad(left[0] or "", told, action=leave_out(left[0] or ""))
        return able

    def _check(self, principal: Principal, asked: Asked, refs: Sequence[ModelRef]) -> None:
        """Refuse what nobody could judge, and what the key may not ask for.

        Raises:
            WireError: There is such a thing.
        """
        responses_reader.check_kept(asked)
        allowed = principal.claims.get("provider_tools", self.settings.provider_tools)
        for kind in asked.hosted:
            if not any(fnmatchcase(kind, glob) for glob in allowed):
                raise bad(
                    "tools",
                    f"found {kind!r}, which the provider runs, so that its calls cannot be judged",
                    action="leave it out, or name it in `provider_tools` of the key",
                )
        providers = {ref.provider for ref in refs}
        for other in (ModelRef(one, name) for name in asked.substitutes for one in providers):
            if not principal.may_use_model(other):
                raise wire_error(
                    "forbidden",
                    f"{principal.id} may not use {str(other)[:200]!r}, which could answer instead",
                    action="leave it out",
                    param="fallbacks" if asked.wire == messages_reader.WIRE else "models",
                )

    def not_carried(self, asked: Asked, ref: ModelRef) -> str | None:
        """Return what of a request cannot go to a model; None where all of it can."""
        wire = self.models.wire(ref)
        if wire == asked.wire:
            return None
        free = () if wire in FREE_TEXT else asked.free_text
        left = (*asked.foreign, *asked.hosted, *free)
        return left[0] if left else None

    def _request(
        self,
        request: web.Request,
        principal: Principal,
        asked: Asked,
        found: Meant,
        session: str,
    ) -> TurnRequest:
        """Return what a turn is to be asked.

        Raises:
            WireError: The mode, or the model, cannot take the request.
        """
        refs, address = found.refs, address_of(principal, session)
        if found.mode == AGENT:
            return replace(
                agent_request(self.host, asked, self.settings.system_tokens),
                agent=found.agent,
                model=tuple(map(str, refs)) or None,
                address=address,
            )
        self._check(principal, asked, refs)
        if found.tools:
            check_choice(asked)
            if (answers := asked.parameters.answers) is not None:
                told = f"{asked.model[:200]!r} brings tools, and of {answers} answers nobody could"
                raise bad("n", f"{told} say whose calls are judged", action="leave it out")
        refs = self._carrying(asked, refs)
        return TurnRequest(
            content="",
            address=address,
            client_tools=asked.tools,
            client_history=asked.messages,
            model=tuple(map(str, refs)),
            parameters=asked.parameters,
            system=asked.system,
            ephemeral=True,
            verbatim=True,
            retries=None if found.tools else _retries(request),
            host_tools=found.tools,
            # What was found is told of as items of the other wires, which taint as they come.
            taint=BROUGHT_TAINT if asked.hosted and asked.wire == chat_reader.WIRE else CLEAN,
            raw=Raw(wire=asked.wire, data=asked.body, headers=_betas(request)),
            whole=not asked.stream,
        )

    def again(self, turn: Turn, sink: Callable[[Event], None]) -> TurnHandle | None:
        """Ask an agent once more whose answer has not the form that was asked for.

        Args:
            turn: The turn, ended.
            sink: Takes the events of the next one.

        Returns:
            The next one; None where the answer fits, or is none yet.
        """
        asked = turn[ASKED]
        schema = schema_of(asked)
        if schema is None or turn.ending != "done" or not (why := misfit(schema, turn.answer)):
            return None
        wanted = asked_again(turn[WANTED], turn, why)
        handle = self.host.start_turn(turn.principal, turn.origin, wanted, sink=sink)
        handle.turn[ASKED], handle.turn[RAN] = asked, turn[RAN]
        if KNOWN in turn:
            handle.turn[KNOWN] = True
        return handle

    def check_again(self, turn: Turn) -> None:
        """Refuse an answer that does not fit, though it was asked for once more.

        Raises:
            WireError: It does not.
        """
        if (schema := schema_of(turn[ASKED])) is not None:
            check_again(schema, turn)

    async def keep(
        self, turn: Turn, said: str, before: Turn | None = None, *, last_alone: bool = False
    ) -> None:
        """Keep what stands behind an answer, as far as its client is not shown it.

        Args:
            turn: The turn, ended.
            said: What the gateway has said in the place of calls that it has denied.
            before: The turn whose answer it is instead of.
            last_alone: Whether of several rounds the client was shown the last one's text alone.
        """
        asked, ran = turn[ASKED], turn[RAN]
        made = made_in(turn, said)
        shows = turn.verbatim and asked.wire != chat_reader.WIRE
        hidden = is_hidden(made, shows_opaque=shows and self.models.wire(ran) == asked.wire)
        if not (hidden or before is not None or KNOWN in turn):
            return
        trail = Conversation(turn.principal)
        trail.walk(asked.messages)
        texts = [message.text for message in made if message.role == "assistant"]
        text = self.host.secrets.redact("".join(texts[-1:] if last_alone else texts))
        digests = trail.answer(text, turn.pending)
        stored = asked.body.get("store") is not False
        made = made if hidden else []
        if before is not None:
            made = [*made_in(before, ""), *turn.messages]
        try:
            session = turn.session.peer
            await self.rounds.keep(digests, session, made, stored=stored)
        except StoreError as error:
            # The answer is whole all the same: its next one will not know of what was hidden.
            self.host.log.warning("hidden rounds not kept", turn=turn.id, exc_info=error)

    # -- within the turn -----------------------------------------------------------------

    def refusal(
        self, turn: Turn, request: ModelRequest
    ) -> Refusal | Coroutine[Any, Any, None] | None:
        """Refuse a model that was denied its calls too often, or that cannot take the request."""
        if request.embed is not None:
            turn[RAN] = request.model
        asked = turn.get(ASKED)
        if asked is None or request.cause != "turn":
            return None
        turn[RAN] = request.model
        if _denied_rounds(turn, request) >= DENIED_ROUNDS:
            why = next(
                (call.decision.reason for call in reversed(turn.calls) if call.decision.reason), ""
            )
            return Refusal(
                code=DENIED,
                message=f"Stopped by the gateway: {DENIED_ROUNDS} times the model called a tool, "
                f"and the call was denied: {why}",
            )
        if turn.verbatim and (name := self.not_carried(asked, request.model)) is not None:
            return Refusal(
                code=NOT_CARRIED,
                message=f"`{name}`: {request.model} speaks another wire, which cannot carry it",
                action=leave_out(name),
            )
        as_it_came = turn.verbatim and self.models.wire(request.model) == asked.wire
        if asked.dropped and not as_it_came:
            return tell_dropped(self.host, turn, asked, request.model)
        forget_dropped(turn)
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


def leave_out(place: str) -> str:
    """Return what to do about what another wire cannot carry: fields alone can be dropped."""
    of_its_wire = "leave it out, or ask a model of the request's own wire"
    return LEAVE_OUT if " " not in place else of_its_wire


def _usable(asked: Asked, restored: Restored) -> tuple[Message, ...]:
    """Return a history without thoughts whose signatures fit nothing any longer.

    Raises:
        WireError: They are needed.
    """
    messages, lost = restored.messages, restored.lost
    if not lost:
        return messages
    thinking = asked.body.get("thinking")
    thinks = isinstance(thinking, dict) and thinking.get("type") != "disabled"
    if thinks and asked.wire == messages_reader.WIRE and in_a_round(messages, lost):
        raise WireError.named(
            LOST,
            "the results are of a call whose message has hidden rounds, which are kept for 24 h",
            action="begin a new conversation, or ask without `thinking`",
            param="messages",
        )
    return without_thoughts(messages, lost)


def _denied_rounds(turn: Turn, request: ModelRequest) -> int:
    """Return in how many rounds of a turn its model had a call denied."""
    if turn.verbatim and not turn.host_tools:
        return request.iteration  # There is no other reason to ask it again.
    denied = {one.call.id for one in turn.calls if one.decision.effect is Effect.DENY}
    results = [message.tool_results for message in turn.messages if message.turn == turn.id]
    return sum(any(part.tool_use_id in denied for part in parts) for parts in results)


def _retries(request: web.Request) -> int | None:
    """Return how often the gateway asks a model again that fails; None for as is usual.

    A client that counts its tries has its own: each of them would be as many upstream.
    """
    return 0 if idempotency.RETRIES in request.headers else None


def _betas(request: web.Request) -> tuple[tuple[str, str], ...]:
    return tuple((name, request.headers[name]) for name in BETAS if name in request.headers)


def _named_session(request: web.Request, own: str) -> str:
    """Return the client's session by its name; "" where it has none."""
    named = (request.headers.get(name, "") for name in SESSION_HEADERS)
    found = next((one for one in named if one), own)
    if len(found) > LONGEST_SESSION:
        raise bad("", f"found a session of {len(found)} characters, expected 200 at most")
    return found


def _session(request: web.Request, own: str) -> str:
    return _named_session(request, own) or new_id("once")


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

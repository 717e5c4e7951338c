"""`run_model_call`: one attempt at one model, and the only way to one.

Whatever happens between `before_model_call` and the end of the stream, `after_model_call`
runs exactly once, shielded from the turn's cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate import hookspecs
from hookgate.core.domain.errors import HookError, NotAllowedError, ProviderError, RefusedError
from hookgate.core.domain.messages import Message, Part, ToolResultPart
from hookgate.core.domain.models import (
    Embedded,
    Ending,
    Frame,
    ModelEvent,
    ModelInfo,
    ModelRef,
    ModelRequest,
    Provider,
    StopEvent,
    StopReason,
    TextDelta,
    TokenCount,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.parts import (
    MEDIA,
    Audio,
    ContentPart,
    Document,
    Image,
    Link,
    Text,
    left_out,
    plain_text,
)
from hookgate.core.domain.ports import BILLS
from hookgate.core.hooks.tasks import raise_if_cancelled, told
from hookgate.core.turn.model.streams import Filtered, StreamSource, close
from hookgate.core.turn.tools.sound import at_least, note_usage, sound_usage

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host

CLOSE_LIMIT = 5.0
"""Seconds that closing a provider's stream may take."""


class ModelCall:
    """One attempt at a model. Iterate `events` once; then the rest is set.

    Attributes:
        turn: The turn that it belongs to.
        request: The request; the one that hooks made of it once `events` has begun.
        ending: How it ended; None before that.
        seconds: How long it took, once it has ended.
        started: Whether a first token had come from the provider.
        usage: What the provider reported, whatever filters did to it. Once the call has ended it
            is an estimate, and says so, where the provider has answered without figures that
            could be true.
    """

    def __init__(self, host: Host, turn: Turn, request: ModelRequest) -> None:
        self._host = host
        self.turn = turn
        self.request = request
        self.ending: Ending | None = None
        self.seconds = 0.0
        self.started = False
        self.usage: Usage | None = None
        # What came from the wire, before any filter could touch it.
        self._stop: StopReason | None = None
        self._marked = True
        self._sent = False
        self._said: list[ModelEvent] = []

    async def events(self) -> AsyncGenerator[ModelEvent, None]:
        """Yield what the model says, filtered.

        Raises:
            RefusedError: A plugin refused the call; nothing was sent.
            HookError: A required hook failed.
            ProviderError: The attempt failed.
        """
        hooks = self._host.hooks
        began = self._host.clock.monotonic()
        request = await hooks.fold(hookspecs.prepare_model_call, self.turn, self.request)
        if request.call_id != self.request.call_id:
            # Whoever charges calls knows them by it.
            request = replace(request, call_id=self.request.call_id)
        self._check_model(request)
        self.request = self._readable(request)
        ending = Ending(status="failed", error="the call did not come to an end")
        stream: AsyncIterator[ModelEvent] | None = None
        try:
            await self._admit()
            stream = await self._open()
            async for event in stream:
                yield event
            ending = self._done()
        except GeneratorExit:
            ending = self._ended("cancelled", "the reader left")
            raise
        except asyncio.CancelledError:
            ending = self._ended("cancelled", "the turn was cancelled")
            raise
        except RefusedError as error:
            ending = self._ended("refused", str(error))
            raise
        except BaseException as error:
            kind = error.kind if isinstance(error, ProviderError) else ""
            status = "cut" if self.started else "failed"
            if isinstance(error, HookError) and not self._sent:
                status = "refused"
            ending = replace(self._ended(status, str(error)), kind=kind)
            raise
        finally:
            self.ending = ending
            self.seconds = self._host.clock.monotonic() - began
            self._account(ending)
            try:
                await self._close(stream)
            finally:
                hook = hookspecs.after_model_call
                await hooks.conclude(hook, self.turn, self.request, ending, self.usage)

    def _check_model(self, request: ModelRequest) -> None:
        """Refuse a model that may not answer the turn's principal, whoever has put it there.

        What a plugin asks for a purpose of its own is no answer to the principal.

        Raises:
            NotAllowedError: It may not.
        """
        principal = self.turn.principal
        if self.request.cause == "turn" and not principal.may_use_model(request.model):
            raise NotAllowedError(
                f"{principal.id} may not be answered by {request.model}",
                action="use a token whose `models` allow it, or have `prepare_model_call` keep "
                "to `turn.principal.models`",
            )

    def _readable(self, request: ModelRequest) -> ModelRequest:
        provider = self._host.providers.get(request.model.provider)
        if provider is None or passes(request, provider):
            return request
        try:
            return readable(request, provider.models)
        except Exception as error:
            self._host.log.warning(
                "models cannot be read", model=str(request.model), exc_info=error
            )
            return readable(request, tuple)

    async def _admit(self) -> None:
        refusals = await self._host.hooks.each_by_plugin(
            hookspecs.before_model_call, self.turn, self.request
        )
        for answer in refusals:
            if answer.value is not None:
                raise RefusedError(replace(answer.value, plugin=answer.plugin))

    async def _open(self) -> AsyncIterator[ModelEvent]:
        """Return the provider's stream behind every filter."""
        hooks = self._host.hooks
        stream: AsyncIterator[ModelEvent] = self._tapped()
        for implementation in hooks.implementations(hookspecs.filter_stream):
            source = StreamSource(stream)
            wrapped = await hooks.run_one(implementation, self.turn, source)
            if wrapped is not None:
                limit = implementation.limit
                stream = Filtered(implementation.plugin, wrapped, source, limit)
        return stream

    async def _tapped(self) -> AsyncIterator[ModelEvent]:
        request = self.request
        provider = self._host.providers.get(request.model.provider)
        if provider is None:
            info = self._host.described.get(request.model.provider)
            if info is not None and info.missing:
                raise ProviderError("auth", f"{info.missing}: {info.action}", provider=info.name)
            known = ", ".join(sorted(self._host.providers)) or "none"
            raise ProviderError(
                "rejected",
                f"no provider is called {request.model.provider!r}: there is {known}",
                provider=request.model.provider,
                action="enable the plugin that brings it, or change the model",
                code="unknown_provider",
            )
        ask = _asker(provider, request)
        self._sent = True
        events: AsyncIterator[ModelEvent] | None = None
        try:
            while True:
                try:
                    if events is None:
                        events = aiter(ask(self.turn, request))
                    event = await anext(events)
                except StopAsyncIteration:
                    break
                except ProviderError:
                    raise
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError):
                        raise_if_cancelled()
                    raise self._broken(error) from error
                if isinstance(event, UsageEvent):
                    # Figures that are none count as not reported: never as less than was used.
                    self.usage = sound_usage(event.usage)
                    if self.usage is None:
                        found = "no counts between 0 and a billion"
                        note_usage(self._host, request.model.provider, found)
                elif isinstance(event, StopEvent):
                    self._stop, self._marked = event.reason, event.marked
                elif not isinstance(event, Frame):
                    self.started = True
                    self._said.append(event)
                yield event
        finally:
            await self._close(events)
        if self._stop is None:
            raise ProviderError(
                "cut",
                f"{request.model} stopped talking without saying that it was done",
                provider=request.model.provider,
            )

    def _broken(self, error: BaseException) -> ProviderError:
        """Return the failure of a provider that did not say in which way it failed."""
        model = self.request.model
        self._host.log.warning("provider failed", model=str(model), exc_info=error)
        return ProviderError(
            "malformed",
            f"{model} failed with {told(error)}",
            provider=model.provider,
        )

    def _done(self) -> Ending:
        if self._stop is None:
            # A filter ended the stream before the provider did.
            return self._ended("cut", "a stream filter ended the answer")
        if not self._marked:
            return self._ended("cut", "the stream ended behind the answer without its own end")
        return Ending(status="done", stop=self._stop, started=self.started, sent=True)

    def _account(self, ending: Ending) -> None:
        """Hold a provider's figures against what they can be, and estimate those that lack."""
        request, said = self.request, self._said
        self._said = []
        if request.counts:
            self.usage = Usage()  # Nobody bills that.
            return
        answered = self.started or self._stop is not None
        bills = self._host.get(BILLS)
        if bills is not None:
            whole = self._stop is not None
            self.usage = bills.settled(request, said, self.usage, whole=whole, answered=answered)
        elif answered and (self.usage is None or not self.usage.reported):
            count = self._host.tokens.count
            written = sum(count(event.text) for event in said if isinstance(event, TextDelta))
            read = request.input_tokens
            counted = Usage(input_tokens=read, output_tokens=written, reported=False)
            self.usage = at_least(counted, self.usage)

    def _ended(self, status: str, error: str) -> Ending:
        return Ending(
            status=status,  # type: ignore[arg-type]
            stop=self._stop,
            error=self._host.secrets.redact(error),
            started=self.started,
            sent=self._sent,
        )

    async def _close(self, stream: AsyncIterator[ModelEvent] | None) -> None:
        # In the task that read it: a stream may hold scopes that belong to its reader.
        if stream is None:
            return
        try:
            await close(stream, limit=CLOSE_LIMIT)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                raise_if_cancelled()
            self._host.log.warning("closing a stream failed", exc_info=error)


def _as_changed(request: ModelRequest) -> ModelRequest:
    """Return a request for vectors with what plugins have made of its messages.

    Raises:
        ProviderError: Nobody could say which text is which now.
    """
    embed, first = request.embed, request.baseline
    if embed is None or first is None or request.messages == first.messages:
        return request
    # What was changed before it came so far stands in no message that came as it is.
    texts, before = _texts(request), _texts(first) or list(map(_text, embed.inputs))
    if not len(texts) == len(before) == len(embed.inputs):
        raise ProviderError(
            "rejected",
            f"a plugin has made {len(texts)} texts of {len(embed.inputs)} that were to be vectors",
            provider=request.model.provider,
            action="have it change the texts of a request with `embed`, and leave their number",
        )
    inputs = tuple(
        given if now == then else now
        for given, now, then in zip(embed.inputs, texts, before, strict=True)
    )
    return replace(request, embed=replace(embed, inputs=inputs), raw=None)


def _text(given: str | Sequence[int]) -> str:
    return given if isinstance(given, str) else str(list(given))


def _texts(request: ModelRequest) -> list[str]:
    parts = (part for message in request.messages for part in message.parts)
    return [part.text for part in parts if isinstance(part, Text)]


def _asker(
    provider: Any, request: ModelRequest
) -> Callable[[Turn, ModelRequest], AsyncIterator[ModelEvent]]:
    """Return what a provider is asked by for what the request wants of it.

    Raises:
        ProviderError: It has no such thing.
    """
    if request.counts:
        name, make, lacks, action = "count", _counter, "counts no tokens", ""
    elif request.embed is not None:
        name, make, lacks = "embed", _embedder, "has no models that make vectors"
        action = "name one of a provider that has, such as hookgate/minilm"
    else:
        stream: Callable[[Turn, ModelRequest], AsyncIterator[ModelEvent]] = provider.stream
        return stream
    if not hasattr(provider, name):
        asked = request.model.provider
        raise ProviderError("rejected", f"{asked} {lacks}", provider=asked, action=action)
    return make(provider)


def _counter(provider: Any) -> Callable[[Turn, ModelRequest], AsyncIterator[ModelEvent]]:
    """Return what asks a provider for a request's tokens as another is asked for an answer."""

    async def counted(turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TokenCount(tokens=await provider.count(turn, request))
        yield StopEvent("end")

    return counted


def _embedder(provider: Any) -> Callable[[Turn, ModelRequest], AsyncIterator[ModelEvent]]:
    """Return what asks a provider for vectors as another is asked for an answer."""

    async def embedded(turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        request = _as_changed(request)
        made: Embedded = await provider.embed(turn, request)
        wanted = len(request.embed.inputs) if request.embed else 0
        if len(made.vectors) != wanted:
            raise ProviderError(
                "malformed",
                f"{request.model} made {len(made.vectors)} vectors of {wanted} texts",
                provider=request.model.provider,
            )
        yield made
        if made.usage is not None:
            yield UsageEvent(made.usage)
        yield StopEvent("end")

    return embedded


# -- what a model can read -------------------------------------------------------

_NOT_ONLY_TEXT = (Link, *MEDIA)


def readable(request: ModelRequest, models: Callable[[], Sequence[ModelInfo]]) -> ModelRequest:
    """Return `request` as its model can read it: what it cannot is named, and not sent.

    Done once, for every provider: one that knows text alone gets text alone.
    Links become text, and so do pictures, sound and documents that the model does not read:
    a note names them. A tool's result that is only text then is a plain string.

    Args:
        request: What is to be asked.
        models: Returns what its provider says of its models.
    """
    if not [message for message in request.messages if not message.plain and _holds_more(message)]:
        return request
    known = {info.name: info for info in models()}
    name = request.model.model
    info = known.get(name) or known.get("*") or ModelInfo(name=name)
    messages = tuple(_message(message, info, request.model) for message in request.messages)
    return replace(request, messages=messages)


def passes(request: ModelRequest, provider: Provider) -> bool:
    """Whether `provider` sends the request as it came, so that nothing of it is put in words."""
    raw = request.raw
    if raw is None or request.baseline is None:
        return False
    return bool(getattr(provider, "wire", "") == raw.wire)


def _holds_more(message: Message) -> bool:
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            if not isinstance(part.content, str):
                return True
        elif isinstance(part, _NOT_ONLY_TEXT):
            return True
    return False


def _message(message: Message, info: ModelInfo, model: ModelRef) -> Message:
    if not _holds_more(message):
        return message

    def fitting(part: Part) -> Part:
        if isinstance(part, ToolResultPart) and not isinstance(part.content, str):
            content = tuple(_part(item, info, model) for item in part.content)
            plain = all(isinstance(item, Text) for item in content)
            return replace(part, content=plain_text(content) if plain else content)
        return _part(part, info, model) if isinstance(part, _NOT_ONLY_TEXT) else part

    return replace(message, parts=tuple(map(fitting, message.parts)))


def _part(part: ContentPart, info: ModelInfo, model: ModelRef) -> ContentPart:
    match part:
        case Image() if not info.images:
            return left_out(part, f"{model} reads no images")
        case Audio() if not info.audio:
            return left_out(part, f"{model} hears no audio")
        case Document() if not info.documents:
            text = part.text
            if text is not None:
                return Text(f"{part.name}:\n{text}" if part.name else text)
            return left_out(part, f"{model} reads no documents")
        case Link():
            return Text(plain_text((part,)))
    return part

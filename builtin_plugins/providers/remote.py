"""One attempt at a model that answers over HTTP: limits, failures, and the relay itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from hookgate import (
    EgressError,
    Embedded,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    TextDelta,
    Turn,
)
from hookgate.builtin_plugins.providers import embeddings
from hookgate.builtin_plugins.providers.failures import (
    MAX_BODY,
    from_egress,
    from_status,
    message_of,
    shorten,
)
from hookgate.builtin_plugins.providers.frames import FRAMES, OpenAIChoices, joined
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.settings import ProviderSettings
from hookgate.builtin_plugins.providers.wire.protocol import (
    Reader,
    SSEError,
    SSESplitter,
    Wire,
    cannot_carry,
    passes,
)
from hookgate.builtin_plugins.providers.wire.template import TagReader, read_tags
from hookgate.kit.modules import httpx
from hookgate.kit.tokens.bounds import upper_bound

NOTHING_THERE = (404, 405, 410, 501)
"""What a server answers that has not got an answer, or that knows no way to forget one."""
DRAIN_SECONDS = 0.1
"""How long the end of a response is waited for behind the protocol's own end. A connection
whose response was read to its end can be used again."""

GATHER_SECONDS = 0.1
"""How long pieces of an answer are gathered that is read at its end alone."""

NOT_A_STREAM = ("application/json", "text/html")
MAX_WHOLE = 4 * 1024 * 1024
"""Bytes of an answer that comes as one JSON object, although a stream was asked for. Reading
one of that size holds the event loop for some milliseconds."""

MAX_VECTORS = 64 * 1024 * 1024
"""Bytes of an answer with vectors: 2,048 of them of 1,536 numbers each, written out."""

NO_PART_OF_A_COUNT = ("stream", "max_tokens")
MAX_TOKENS = 1_000_000_000

MOST_MODELS = 1000
"""Models that are read of a server's list."""

MOST_NAME = 200
"""Characters of a model's name."""

_OF_LISTS = ("accept-encoding", "user-agent")
"""Headers that a request for the list shares with those for answers."""

MAX_ERROR = 800
"""Characters of an error's text."""


class RemoteProvider:
    """A provider that is reached over HTTP and streams server-sent events.

    Args:
        name: Its name, before the slash in ``provider/model``.
        settings: Its limits.
        wire: Its protocol.
        client: A client that may reach the protocol's URL; this provider closes it.
        models: Its models.
        redact: Masks secrets in what the other side says.
        complain: Takes what is wrong with reported token counts, for the log.
        missing_key: That a key is not there, and what to do; "" where all is well.
        keyless: What to do if the other side wants a key, where none is configured.
        now: The time in UTC, for waits that are given as a date.
    """

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        wire: Wire,
        client: httpx.AsyncClient,
        *,
        models: Sequence[ModelInfo],
        redact: Callable[[str], str],
        complain: Callable[[str], None],
        missing_key: str = "",
        keyless: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._name = name
        self._settings = settings
        self._wire = wire
        headers = {
            **client.headers,
            **settings.headers,
            **wire.headers,
            "accept": "text/event-stream",
            # A compressor in between would hold events back until a block is full.
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        extensions = {"timeout": client.timeout.as_dict(), "total": settings.total_seconds}
        self._like = httpx.Request("POST", wire.url, headers=headers, extensions=extensions)
        self._client = client
        self._redact = redact
        self._complain = complain
        self._missing_key = missing_key
        self._keyless = keyless
        self._now = now
        self._running, self._retired = 0, False
        self._models = tuple(models)
        self._named = {info.name: info for info in models}

    @property
    def name(self) -> str:
        """The name that stands before the slash in ``provider/model``."""
        return self._name

    @property
    def wire(self) -> str:
        """The wire whose requests are sent as they came; "" for none."""
        return self._wire.name if self._wire.name in FRAMES else ""

    def models(self) -> Sequence[ModelInfo]:
        """Return the models that the settings name, and ``*`` for any other."""
        return self._models

    def bound(self, request: ModelRequest) -> int:
        """Return the most tokens of input that `request` can be billed for."""
        name = request.model.model
        return upper_bound(
            request,
            self._named.get(name) or self._named.get("*"),
            picture=lambda image: self._wire.picture(image, name),
        )

    async def served(self) -> Sequence[str]:
        """Ask the server for the names of its models.

        Raises:
            ProviderError: It did not say them.
        """
        asking = self._bare("GET", self._wire.models_url)
        return self._names_in(await self._fetch(asking, "before it had listed its models"))

    async def embed(self, turn: Turn, request: ModelRequest) -> Embedded:
        """Turn the texts of a request into vectors.

        Raises:
            ProviderError: The attempt failed.
        """
        del turn
        if not self._wire.embeddings_url:
            raise self._error("rejected", f"{self._name} has no models that make vectors")
        asking = httpx.Request(
            "POST",
            self._wire.embeddings_url,
            headers=self._like.headers,
            content=orjson.dumps(embeddings.body(request)),
            extensions=self._like.extensions,
        )
        self._running += 1
        try:
            when = "before it had made its vectors"
            answer = await self._fetch(asking, when, most=MAX_VECTORS)
            return await asyncio.to_thread(embeddings.read, self._name, answer, self._complain)
        finally:
            self._running -= 1
            if self._retired and not self._running:
                await self.close()

    async def count(self, turn: Turn, request: ModelRequest) -> int:
        """Return the tokens that the server says a request has, which it sends as it came.

        Raises:
            ProviderError: It does not say it.
        """
        del turn
        if not self._wire.count_url or not passes(request, self._wire.name):
            raise self._error("rejected", f"{self._name} does not count this request")
        body = self._wire.body(request)
        asked = {name: value for name, value in body.items() if name not in NO_PART_OF_A_COUNT}
        asking = httpx.Request(
            "POST",
            self._wire.count_url,
            headers=self._like.headers,
            content=orjson.dumps(asked),
            extensions=self._like.extensions,
        )
        assert request.raw is not None, "it passes"
        asking.headers.update([one for one in request.raw.headers if one[0] in self._wire.passed])
        answer = await self._fetch(asking, "before it had counted")
        try:
            tokens = orjson.loads(answer)["input_tokens"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            tokens = None
        if type(tokens) is not int or not 0 < tokens <= MAX_TOKENS:
            raise self._error("malformed", f"{self._name} counted {message_of(answer)!r}")
        return tokens

    async def forget(self, answer: str) -> None:
        """Have the server forget an answer that it keeps.

        One that it has not is forgotten. So is one at a server that can forget none, as one that
        speaks this wire need not: nobody could ever delete it anywhere otherwise.

        Raises:
            ProviderError: It has not done so.
        """
        if not self._wire.kept_url:
            return  # Its wire is another one by now.
        asking = self._bare("DELETE", f"{self._wire.kept_url}{quote(answer, safe='')}")
        # They can say whose it is: without them it would be somebody else's, and not there.
        asking.headers.update(self._settings.headers)
        try:
            await self._fetch(asking, "before it had forgotten an answer")
        except ProviderError as error:
            if error.status not in NOTHING_THERE:
                raise

    def _bare(self, method: str, url: str) -> httpx.Request:
        """Return a request without a body."""
        headers = {key: value for key, value in self._like.headers.items() if key in _OF_LISTS}
        headers |= self._wire.headers
        return httpx.Request(method, url, headers=headers, extensions=self._like.extensions)

    async def _fetch(self, asking: httpx.Request, when: str, *, most: int = MAX_WHOLE) -> bytes:
        """Return the JSON that a request is answered with.

        Raises:
            ProviderError: Something else came back.
        """
        self._check_key()
        asking.headers["accept"] = "application/json"
        try:
            async with asyncio.timeout(self._settings.first_byte_seconds):
                response = await self._client.send(asking, stream=True)
                try:
                    await self._check(response)
                    return await self._whole(response.aiter_bytes(), most=most)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise self._silent(when, "first_byte") from None
        except EgressError as error:
            raise self._masked(from_egress(self._name, error)) from error
        except ProviderError as error:
            raise self._masked(error) from error.__cause__

    def _names_in(self, body: bytes) -> Sequence[str]:
        try:
            rows = orjson.loads(body)["data"]
            names = [row["id"] for row in rows[:MOST_MODELS]]
        except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
            raise self._error(
                "malformed",
                f"{self._name} listed its models as {message_of(body)!r}, expected an object with "
                "`data`, a list of objects with `id`",
            ) from None
        return [name for name in names if isinstance(name, str) and 0 < len(name) <= MOST_NAME]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def retire(self) -> None:
        """Close the connections once the answers that are under way have ended."""
        self._retired = True
        if not self._running:
            await self.close()

    def stream(self, turn: Turn, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model once and yield what it says, as it says it.

        Raises:
            ProviderError: The attempt failed.
        """
        del turn  # The request holds all that the model gets.
        events = self._ask(request)
        models = self._settings.models
        of_model = models.get(request.model.model) or models.get("*")
        if of_model is None or (of_model.think_tags == "off" and not of_model.tool_call_tags):
            return events
        return read_tags(events, TagReader(of_model.think_tags, calls=of_model.tool_call_tags))

    async def _ask(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        (reader, said), splitter = self._reader(request), SSESplitter()
        stream: Any = None
        self._running += 1
        try:
            try:
                async with asyncio.timeout(self._settings.first_byte_seconds):
                    response, kind = await self._send(request)
                    stream = response.extensions.get("chunks", response.stream)
                    chunks = aiter(stream)
                    streams = kind not in NOT_A_STREAM
                    events = await _first_events(chunks, splitter) if streams else []
            except TimeoutError:
                raise self._silent("before its first event", "first_byte") from None
            self._set_pace(response, request)
            if not streams:
                for event in reader.whole(await self._whole(chunks)):
                    yield event
            for event in said(reader, events):
                yield event
            if not reader.done:
                # The relay. One generator, no timer: the transport watches the clock.
                template, passed = reader.template, reader.frames
                async for chunk in chunks:
                    between = splitter.between
                    if between and passed is not None and (piece := passed.said_by(chunk)):
                        yield piece
                        continue
                    if between and not passed and (text := template.text_of_chunk(chunk)):
                        yield TextDelta(text)
                        continue
                    events = splitter.feed(chunk)
                    for event in said(reader, events):
                        yield event
                    if reader.done:
                        break
                    if between and splitter.between and events:
                        (passed or template).learn_chunk(chunk, events)
                else:
                    for event in _last_events(reader, splitter):
                        yield event
            if not getattr(stream, "over", False):
                await _drain(chunks)
            self._check_usage(reader, request)
        except EgressError as error:
            for event in self._despite(error, reader, splitter):
                yield event
        except SSEError as error:
            raise self._error(
                "malformed", f"{self._name} sent too much at once: {error}"
            ) from error
        except ProviderError as error:
            raise self._masked(error) from error.__cause__
        finally:
            self._running -= 1
            if stream is not None:
                await stream.aclose()
            if self._retired and not self._running:
                await self.close()

    def _reader(
        self, request: ModelRequest
    ) -> tuple[Reader, Callable[[Reader, Sequence[bytes]], Iterable[ModelEvent]]]:
        """Return what reads one answer, and what of its events that come together are told by.

        Raises:
            ProviderError: Several answers are asked for, of which this wire knows nothing.
        """
        complain, answers = _once(self._complain), request.parameters.answers or 1
        is_passed = request.raw is not None and passes(request, self.wire)
        if answers > 1:
            if not (is_passed and self.wire == OpenAIWire.name):
                cannot_carry(self._name, self._wire.name, f"{answers} answers to one request")
            return OpenAIChoices(self._name, complain, answers), joined
        if is_passed:
            return FRAMES[self.wire](self._name, complain), joined
        return self._wire.reader(complain), _said

    # -- the request -------------------------------------------------------

    async def _send(self, request: ModelRequest) -> tuple[httpx.Response, str]:
        """Return a response that streams events, or brings the answer whole, and its media type.

        Raises:
            ProviderError: Something else came back.
            EgressError: Nothing came back.
        """
        self._check_key()
        # With a stream: reading the same headers anew takes longer than all the rest.
        like, body = self._like, self._body(request)
        asking = httpx.Request(
            like.method,
            like.url,
            headers=like.headers,
            stream=httpx.ByteStream(body),
            extensions=like.extensions,
        )
        asking.headers["content-length"] = str(len(body))
        if request.raw is not None and passes(request, self.wire):
            own = [header for header in request.raw.headers if header[0] in self._wire.passed]
            asking.headers.update(own)
        response = await self._client.send(asking, stream=True)
        kind = _kind(response)
        if response.status_code == 200 and kind != "text/html":
            return response, kind
        try:
            await self._check(response)
            body = await _beginning(response)
        finally:
            await response.aclose()
        raise self._error(
            "malformed",
            f"{self._name} answered with {kind}, expected text/event-stream: {message_of(body)}",
        )

    def _check_key(self) -> None:
        if self._missing_key:
            # It ends with what to do: where the key was looked for.
            action = self._missing_key.partition(": ")[2]
            raise self._error("auth", self._missing_key, action=action)

    async def _check(self, response: httpx.Response) -> None:
        """Refuse a response of another status than 200.

        Raises:
            ProviderError: It has one.
        """
        if response.status_code == 200:
            return
        body = await _beginning(response)
        error = from_status(self._name, response.status_code, response.headers, body, self._now())
        if error.kind == "auth" and self._keyless:
            text = f"{error}; {self._keyless}"
            raise ProviderError("auth", text, provider=self._name, status=response.status_code)
        raise error

    async def _whole(self, chunks: AsyncIterator[bytes], *, most: int = MAX_WHOLE) -> bytes:
        """Return a body that is the whole answer.

        Raises:
            ProviderError: It is too long.
            EgressError: It was cut.
        """
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > most:
                kind = "text/event-stream" if most == MAX_WHOLE else "less"
                raise self._error(
                    "malformed",
                    f"{self._name} answered with JSON of more than {most} bytes, expected {kind}",
                )
        return bytes(body)

    def _body(self, request: ModelRequest) -> bytes:
        try:
            return orjson.dumps(self._wire.body(request))
        except TypeError as error:
            raise self._error(
                "rejected", f"the request to {self._name} cannot be written as JSON: {error}"
            ) from error

    def _set_pace(self, response: httpx.Response, request: ModelRequest) -> None:
        """Limit the silence from now on, and read less often what is read at its end."""
        limit: Callable[[float], None] | None = response.extensions.get("limit_silence")
        if limit is not None:
            limit(self._settings.idle_seconds)
        gather: Callable[[float], None] | None = response.extensions.get("gather")
        if gather is not None and request.whole:
            gather(GATHER_SECONDS)

    # -- failures ----------------------------------------------------------

    def _check_usage(self, reader: Reader, request: ModelRequest) -> None:
        """Refuse an answer to a client's own request whose usage is less than nothing.

        Raises:
            ProviderError: It is; elsewhere the gateway counts for itself, and nobody sees it.
        """
        if request.raw is not None and (found := reader.usage.negative):
            raise self._error(
                "malformed", f"{self._name} reported impossible token counts: {found}"
            )

    def _despite(
        self, error: EgressError, reader: Reader, splitter: SSESplitter
    ) -> Iterator[ModelEvent]:
        """Yield the rest of an answer that was at its end when the connection failed.

        Raises:
            ProviderError: It was not.
        """
        try:
            if not reader.done:
                yield from _last_events(reader, splitter)
        except ProviderError:
            raise self._masked(from_egress(self._name, error)) from error

    def _silent(self, when: str, limit: str) -> ProviderError:
        seconds: float = getattr(self._settings, f"{limit}_seconds")
        return self._error(
            "timeout",
            f"{self._name} was silent for {seconds:g} s {when}: expected less; `{limit}_seconds` "
            "sets the limit",
        )

    def _error(self, kind: ProviderErrorKind, text: str, *, action: str = "") -> ProviderError:
        return self._masked(ProviderError(kind, text, provider=self._name, action=action))

    def _masked(self, error: ProviderError) -> ProviderError:
        """Return `error` short, and with every secret in its text masked."""
        return ProviderError(
            error.kind,
            shorten(self._redact(str(error)), MAX_ERROR),
            provider=self._name,
            status=error.status,
            retry_after=error.retry_after,
            action=self._redact(error.action),
            code=error.code,
        )


def _once(complain: Callable[[str], None]) -> Callable[[str], None]:
    """Return `complain` for one answer, which may report the same in each of its events."""
    complained = False

    def first(found: str) -> None:
        nonlocal complained
        if not complained:
            complained = True
            complain(found)

    return first


def _kind(response: httpx.Response) -> str:
    """Return a response's media type."""
    raw = response.headers.raw
    kinds = [value for name, value in raw if name.lower() == b"content-type"]
    return b", ".join(kinds).decode("latin-1").partition(";")[0].strip().lower()


def _said(reader: Reader, found: Sequence[bytes]) -> Iterable[ModelEvent]:
    """Yield what events say that came together: text behind text is one piece, as it came.

    Each piece costs the way to the client anew, and where many come together, time is short.
    """
    texts: list[str] = []
    for data in found:
        text = reader.template.text_of_event(data)
        if text is not None:
            texts.append(text)
            continue
        if joined := "".join(texts):
            yield TextDelta(joined)
        texts.clear()
        yield from reader.read(data)
    if joined := "".join(texts):
        yield TextDelta(joined)


async def _first_events(chunks: AsyncIterator[bytes], splitter: SSESplitter) -> list[bytes]:
    """Return the first events; [] where the stream ends without one."""
    async for chunk in chunks:
        if events := splitter.feed(chunk):
            return events
    return []


def _last_events(reader: Reader, splitter: SSESplitter) -> Iterator[ModelEvent]:
    """Yield what is left to say at the end of a stream, its usage too if it was cut.

    Raises:
        ProviderError: It was cut.
    """
    data = splitter.close()
    if data is not None:
        # Either the blank line behind it is missing, or the rest of the event: it was cut.
        try:
            yield from reader.read(data)
        except ProviderError as error:
            if error.kind != "malformed":
                raise
    if not reader.done:
        yield from reader.end()


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read a response to its end, if that comes soon."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except (TimeoutError, EgressError):
        return


async def _beginning(response: httpx.Response) -> bytes:
    """Return the first `MAX_BODY` bytes of a body, or as much of it as comes."""
    body = b""
    with suppress(EgressError):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= MAX_BODY:
                break
    return body[:MAX_BODY]

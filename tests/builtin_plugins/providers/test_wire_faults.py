"""Bad upstreams: each becomes one typed error within its limit, and the next call works."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.builtin_plugins.providers.conftest import CANARY
from tests.builtin_plugins.providers.raw import CHUNKED, CLOSING, HEAD, RawServer, Script, Wire
from tests.builtin_plugins.providers.requests_made import request, user
from tests.builtin_plugins.providers.transcripts import ANTHROPIC, OPENAI, chunk, sse
from tests.support.examples import sampled

from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.models import StopEvent, TextDelta

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.builtin_plugins.providers.remote import RemoteProvider
    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.turn import Turn

    Make = Callable[..., RemoteProvider]

NO_TURN = cast("Turn", None)
ASKED = request(user("hello"))
TRANSCRIPTS = {"openai": OPENAI, "anthropic": ANTHROPIC}
STREAMS = {kind: sse(*events) for kind, events in TRANSCRIPTS.items()}
KINDS = sorted(STREAMS)
LIMIT = 50.0
"""Seconds by which every fault must have become an error. Limits below are far shorter, the
default ones longer."""


async def ask(provider: RemoteProvider) -> list[ModelEvent]:
    return [event async for event in provider.stream(NO_TURN, ASKED)]


async def asked_until_in_time(provider: RemoteProvider) -> list[ModelEvent]:
    """Ask again while an answer is late: the limits that make a fault quick are shorter
    than a busy machine may take for a whole answer."""
    for _ in range(50):
        try:
            return await ask(provider)
        except ProviderError as error:
            if error.kind != "timeout":
                raise
    return await ask(provider)


async def failure(provider: RemoteProvider) -> tuple[ProviderError, list[ModelEvent]]:
    """Return what an attempt failed with, and what it had said before."""
    said: list[ModelEvent] = []
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(ProviderError) as caught:
        async for event in provider.stream(NO_TURN, ASKED):
            said.append(event)  # noqa: PERF401  # a comprehension loses what came before
    assert loop.time() - begun < LIMIT
    assert caught.value.provider == "acme"
    assert CANARY not in str(caught.value)
    return caught.value, said


def sends(*pieces: bytes, close: bool = True) -> Script:
    async def script(wire: Wire) -> None:
        await wire.raw(*pieces)
        if close:
            wire.close()

    return script


def answers(status: int, body: bytes = b"", **headers: str) -> Script:
    async def script(wire: Wire) -> None:
        await wire.answer(status, body, **headers)

    return script


def streams(*pieces: bytes, end: bool = True) -> Script:
    async def script(wire: Wire) -> None:
        await wire.chunks(*pieces, end=end)
        if not end:
            wire.close()

    return script


def stalls(*pieces: bytes) -> Script:
    async def script(wire: Wire) -> None:
        await wire.raw(*pieces)
        await asyncio.sleep(30)

    return script


def drips(piece: bytes) -> Script:
    async def script(wire: Wire) -> None:
        await wire.raw(CLOSING)
        while True:
            await wire.raw(piece)
            await asyncio.sleep(0.02)

    return script


SOME = {kind: sse(*events[:3]) for kind, events in TRANSCRIPTS.items()}
FAST = {"first_byte_seconds": 0.15, "idle_seconds": 0.15}
JSON_ERROR = json.dumps({"error": {"type": "x", "message": f"No, {CANARY}!"}}).encode()

# name, what the server does, the kind of error, limits.
FAULTS: list[tuple[str, Callable[[str], Script], str, dict[str, float]]] = [
    ("never answers", lambda _: stalls(), "timeout", FAST),
    ("headers and silence", lambda _: stalls(CLOSING), "timeout", FAST),
    ("half a status line", lambda _: stalls(b"HTTP/1."), "timeout", FAST),
    ("half-open behind an event", lambda kind: stalls(CLOSING, SOME[kind]), "timeout", FAST),
    (
        "half-open within an event",
        lambda kind: stalls(CLOSING, SOME[kind], b'data: {"typ'),
        "timeout",
        FAST,
    ),
    ("keep-alives alone", lambda _: drips(b": ping\n\n"), "timeout", FAST),
    (
        "an endless answer",
        lambda kind: drips(sse(TRANSCRIPTS[kind][1])),
        "timeout",
        {"total_seconds": 0.3},
    ),
    ("gone before the headers", lambda _: sends(), "cut", {}),
    ("gone within the headers", lambda _: sends(HEAD), "cut", {}),
    ("gone before an event", lambda _: sends(CHUNKED), "cut", {}),
    ("gone behind an event", lambda kind: streams(SOME[kind], end=False), "cut", {}),
    ("gone within an event", lambda kind: sends(CLOSING, SOME[kind], b'data: {"typ'), "cut", {}),
    ("an end without a stop", lambda kind: streams(SOME[kind]), "cut", {}),
    ("an end without an event", lambda _: streams(), "cut", {}),
    ("an empty answer", lambda _: answers(200), "cut", {}),
    ("no content", lambda _: sends(b"HTTP/1.1 204 X\r\n\r\n", close=False), "malformed", {}),
    ("another protocol", lambda _: sends(b"SSH-2.0-x\r\n\r\n"), "malformed", {}),
    (
        "broken chunks",
        lambda kind: sends(CHUNKED, b"zz\r\n" + SOME[kind]),
        "malformed",
        {},
    ),
    (
        "an error in JSON with status 200",
        lambda _: answers(200, JSON_ERROR, content_type="application/json"),
        "server",
        {},
    ),
    (
        "JSON that is no answer",
        lambda _: answers(200, b'{"models": []}', content_type="application/json"),
        "malformed",
        {},
    ),
    (
        "JSON that is cut",
        lambda _: sends(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n",
            b'{"choices": [{"mess',
        ),
        "cut",
        {},
    ),
    (
        "JSON without end",
        lambda _: answers(200, b'"' + b"x" * 5_000_000, content_type="application/json"),
        "malformed",
        {},
    ),
    (
        "a page in the place of a stream",
        lambda _: answers(200, b"<html><b>Log in</b>", content_type="text/html"),
        "malformed",
        {},
    ),
    (
        "an event that is no JSON",
        lambda kind: streams(SOME[kind], b"data: {x\n\n"),
        "malformed",
        {},
    ),
    ("an event that is a list", lambda kind: streams(SOME[kind], b"data: []\n\n"), "malformed", {}),
    (
        "an event that is no UTF-8",
        lambda kind: streams(SOME[kind], b'data: {"a": "\xff"}\n\n'),
        "malformed",
        {},
    ),
    ("a line without an end", lambda _: sends(CLOSING, *[b"x" * 65_536] * 32), "malformed", {}),
    ("400", lambda _: answers(400, JSON_ERROR), "rejected", {}),
    ("401", lambda _: answers(401, JSON_ERROR), "auth", {}),
    ("403", lambda _: answers(403, b"no"), "auth", {}),
    ("404", lambda _: answers(404, b"<html>" + b"x" * 100_000), "rejected", {}),
    ("413", lambda _: answers(413), "rejected", {}),
    ("422", lambda _: answers(422, b'{"detail": [{"msg": "bad"}]}'), "rejected", {}),
    ("429", lambda _: answers(429, JSON_ERROR), "rate_limited", {}),
    ("500", lambda _: answers(500, b"\xff\xfe"), "server", {}),
    ("502 with a page", lambda _: answers(502, b"<h1>Bad gateway</h1>"), "server", {}),
    ("503", lambda _: answers(503), "overloaded", {}),
    ("504", lambda _: answers(504), "timeout", {}),
    ("529", lambda _: answers(529, JSON_ERROR), "overloaded", {}),
    ("a redirect", lambda _: answers(302, location="http://127.0.0.1:1/"), "rejected", {}),
    (
        "an error body that never ends",
        lambda _: stalls(b"HTTP/1.1 500 X\r\ncontent-length: 99\r\n\r\nhalf"),
        "timeout",
        FAST,
    ),
]


def test_there_are_more_faults_than_the_twenty_five_that_are_promised() -> None:
    assert len(FAULTS) >= 25


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("act", "expected", "limits"),
    sampled((pytest.param(*row[1:], id=row[0]) for row in FAULTS), every=4),
)
async def test_a_fault_is_a_typed_error_and_the_next_call_works(
    act: Callable[[str], Script],
    expected: str,
    limits: dict[str, float],
    kind: str,
    server: RawServer,
    made: Make,
) -> None:
    provider = made(kind, server.url, **limits)
    server.script = act(kind)
    error, _ = await failure(provider)
    assert error.kind == expected, str(error)
    assert "acme" in str(error)
    assert len(str(error)) < 1000
    server.script = streams(STREAMS[kind])
    assert (await asked_until_in_time(provider))[-1] == StopEvent("tool_use")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_event_behind_some_text_keeps_its_kind(
    kind: str, server: RawServer, made: Make
) -> None:
    error = {"error": {"type": "overloaded_error", "message": f"Busy {CANARY}"}}
    if kind == "anthropic":
        error = {"type": "error", **error}  # type: ignore[dict-item]  # the protocol's shape
    server.script = streams(SOME[kind] + sse(error))
    failed, said = await failure(made(kind, server.url))
    assert failed.kind == "overloaded"
    assert said


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_port_is_unreachable(kind: str, made: Make) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    error, _ = await failure(made(kind, f"http://127.0.0.1:{port}"))
    assert error.kind == "unreachable"
    assert error.retryable


async def test_a_server_that_does_not_take_connections_is_unreachable(made: Make) -> None:
    # TLS against a server that never shakes hands: TCP is there, the connection is not.
    over = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        provider = made("openai", f"https://127.0.0.1:{port}/v1", connect_seconds=0.1)
        error, _ = await failure(provider)
    finally:
        over.set()
        server.close()
        await server.wait_closed()
    assert error.kind == "unreachable"


async def test_the_wait_that_is_asked_for_is_passed_on(server: RawServer, made: Make) -> None:
    server.script = answers(429, b"", retry_after="7")
    error, _ = await failure(made("anthropic", server.url))
    assert (error.retry_after, error.status) == (7.0, 429)
    server.script = answers(
        503,
        b"",
        date="Sat, 21 Nov 2026 10:00:00 GMT",
        retry_after="Sat, 21 Nov 2026 10:01:30 GMT",
    )
    error, _ = await failure(made("openai", server.url))
    assert error.retry_after == 90.0


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_split_at_any_byte_is_the_same_on_the_wire(
    kind: str, server: RawServer, made: Make
) -> None:
    provider = made(kind, server.url)
    stream = STREAMS[kind]
    server.script = streams(stream)
    whole = await ask(provider)
    for at in range(1, len(stream), 13):
        server.script = streams(stream[:at], stream[at:])
        assert await ask(provider) == whole
    assert server.connections == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_any_line_end_and_keep_alives_are_read(
    end: str, server: RawServer, made: Make
) -> None:
    ping = f": keep-alive{end}{end}".encode()
    server.script = streams(ping, sse(*OPENAI[:4], end=end), ping, sse(*OPENAI[4:], end=end))
    assert (await ask(made("openai", server.url)))[-1] == StopEvent("tool_use")


async def test_keep_alives_break_the_silence(server: RawServer, made: Make) -> None:
    async def script(wire: Wire) -> None:
        await wire.raw(CLOSING, sse(*OPENAI[:2]))
        for _ in range(8):
            await asyncio.sleep(0.1)
            await wire.raw(b": ping\n\n")
        await wire.raw(sse(*OPENAI[2:]))

    server.script = script
    provider = made("openai", server.url, idle_seconds=0.6)
    assert (await asked_until_in_time(provider))[-1] == StopEvent("tool_use")


async def test_the_first_event_may_take_longer_than_a_silence(
    server: RawServer, made: Make
) -> None:
    async def script(wire: Wire) -> None:
        await wire.raw(CLOSING)
        await asyncio.sleep(0.7)
        await wire.raw(STREAMS["openai"])

    server.script = script
    provider = made("openai", server.url, idle_seconds=0.5, first_byte_seconds=20)
    assert (await asked_until_in_time(provider))[-1] == StopEvent("tool_use")


async def test_a_line_of_600_kilobytes_is_read(server: RawServer, made: Make) -> None:
    text = "long " * 122_880
    server.script = streams(sse(chunk({"content": text}), chunk({}, "stop"), "[DONE]"))
    assert await ask(made("openai", server.url)) == [TextDelta(text), StopEvent("end")]


async def test_a_compressed_answer_is_read_although_none_was_asked_for(
    server: RawServer, made: Make
) -> None:
    body = gzip.compress(STREAMS["openai"])
    server.script = answers(200, body, content_encoding="gzip", content_type="text/event-stream")
    assert (await ask(made("openai", server.url)))[-1] == StopEvent("tool_use")
    assert "accept-encoding: identity" in server.heads[0].lower()


async def test_a_stream_may_end_without_its_last_blank_line(server: RawServer, made: Make) -> None:
    server.script = sends(CLOSING, STREAMS["openai"].removesuffix(b"\n\n"))
    assert (await ask(made("openai", server.url)))[-1] == StopEvent("tool_use")


async def test_a_cut_behind_the_finish_reason_loses_nothing(server: RawServer, made: Make) -> None:
    server.script = streams(sse(*OPENAI[:-2]), end=False)
    assert (await ask(made("openai", server.url)))[-1] == StopEvent("tool_use")


async def test_connections_are_kept_from_call_to_call(server: RawServer, made: Make) -> None:
    provider = made("anthropic", server.url)
    server.script = streams(STREAMS["anthropic"])
    for _ in range(4):
        await ask(provider)
    assert server.connections == 1


async def test_an_attempt_is_one_request(server: RawServer, made: Make) -> None:
    server.script = answers(500)
    await failure(made("openai", server.url))
    server.script = sends()
    await failure(made("openai", server.url))
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_the_request_on_the_wire_carries_key_headers_and_body(
    kind: str, server: RawServer, made: Make
) -> None:
    server.script = streams(STREAMS[kind])
    provider = made(kind, server.url, headers={"X-Team": "blue"})
    await ask(provider)
    head = server.heads[0].lower()
    paths = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
    assert head.startswith(f"post {paths[kind]} http/1.1")
    assert CANARY in head
    assert "x-team: blue" in head
    assert server.requests[0]["model"] == "big"
    assert server.requests[0]["stream"] is True


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_the_reader_closes_the_connection_at_once(
    kind: str, server: RawServer, made: Make
) -> None:
    provider = made(kind, server.url, idle_seconds=60)
    server.script = stalls(CLOSING, SOME[kind])
    first = asyncio.Event()

    async def read() -> None:
        async for _ in provider.stream(NO_TURN, ASKED):
            first.set()

    task = asyncio.create_task(read())
    await server.heard.wait()
    if kind == "anthropic":
        await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.left.wait()


async def test_closing_the_stream_half_way_closes_the_connection(
    server: RawServer, made: Make
) -> None:
    server.script = drips(sse(OPENAI[2]))
    stream: Any = made("openai", server.url).stream(NO_TURN, ASKED)
    assert await anext(stream) == TextDelta("and on")
    await stream.aclose()
    await server.left.wait()


async def test_a_provider_without_its_key_says_what_to_set_and_sends_nothing(
    server: RawServer, made: Make
) -> None:
    provider = made("openai", server.url, key=None, api_key_env="ACME_KEY")
    error, _ = await failure(provider)
    assert error.kind == "auth"
    assert "set ACME_KEY" in str(error)
    assert server.connections == 0


async def test_a_local_server_needs_no_key(server: RawServer, made: Make) -> None:
    server.script = streams(STREAMS["openai"])
    assert (await ask(made("openai", server.url, key=None)))[-1] == StopEvent("tool_use")
    assert "authorization" not in server.heads[0].lower()


async def test_a_server_that_wants_a_key_where_none_is_configured_says_where_to_put_one(
    server: RawServer, made: Make
) -> None:
    server.script = answers(401, b"no")
    error, _ = await failure(made("openai", server.url, key=None))
    assert (error.kind, error.status) == ("auth", 401)
    assert "`api_key_env` or `api_key_file` in [plugin.providers.acme]" in str(error)


async def test_impossible_usage_is_complained_of_and_not_passed_on(
    server: RawServer, made: Any
) -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": 2}
    server.script = streams(sse(chunk({"content": "x"}, "stop"), chunk(usage=usage), "[DONE]"))
    assert await ask(made("openai", server.url)) == [TextDelta("x"), StopEvent("end")]
    assert len(made.complaints) == 1

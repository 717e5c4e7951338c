"""Against llmock, a mock of both protocols that somebody else wrote, and its faults."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import httpx
import pytest
from llmock.scenarios import Delay, Fail, Reply, SlowFirstToken, StreamFault, ToolCall, ToolFault
from llmock.testing import LLMockServer
from tests.builtin_plugins.providers.requests_made import (
    CALCULATE,
    CLOCK,
    FULL,
    assistant,
    request,
    results,
    user,
)
from tests.builtin_plugins.turns import KnownSecrets

from hookgate.builtin_plugins.providers.assembly import make_provider
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.settings import ProviderSettings
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import ToolResultPart, ToolUse
from hookgate.core.domain.models import ModelRequest, StopEvent, TextDelta, ToolUseEvent, UsageEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.turn import Turn

    Make = Callable[..., RemoteProvider]

NO_TURN = cast("Turn", None)
KINDS = ["anthropic", "openai"]
LIMIT = 50.0
"""Seconds by which every fault must have become an error: the default limits are longer."""


@pytest.fixture(scope="module")
def running() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture
def mock(running: LLMockServer) -> LLMockServer:
    running.state.reset()
    return running


@pytest.fixture(params=KINDS)
def provider(request: pytest.FixtureRequest, mock: LLMockServer, made: Make) -> RemoteProvider:
    return made(request.param, mock.base_url(request.param))


class PlainEgress:
    """An `Egress` of somebody else, that gives plain clients of httpx."""

    def client(self, grants: object, **rest: object) -> httpx.AsyncClient:
        return httpx.AsyncClient(trust_env=False)


async def ask(provider: RemoteProvider, asked: ModelRequest) -> list[ModelEvent]:
    return [event async for event in provider.stream(NO_TURN, asked)]


async def failure(provider: RemoteProvider) -> tuple[ProviderError, list[ModelEvent]]:
    said: list[ModelEvent] = []
    begun = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        async for event in provider.stream(NO_TURN, request(user("hello"))):
            said.append(event)  # noqa: PERF401  # a comprehension loses what came before
    assert time.monotonic() - begun < LIMIT
    return caught.value, said


@pytest.mark.parametrize("kind", KINDS)
async def test_a_plain_client_of_httpx_is_enough(kind: str, mock: LLMockServer) -> None:
    settings = ProviderSettings.model_validate({"kind": kind, "base_url": mock.base_url(kind)})
    provider = make_provider("a", settings, "key", PlainEgress(), KnownSecrets(), print)
    assert isinstance(provider, RemoteProvider)
    assert any(isinstance(one, TextDelta) for one in await ask(provider, request(user("hello"))))
    await provider.close()


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_text_comes_whole_with_usage_and_a_stop(
    mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(Reply(text="one two three"))
    said = await ask(provider, request(user("hello")))
    assert text_of(said) == "one two three"
    # What came together, as on a busy machine, is one piece.
    assert 1 <= sum(isinstance(event, TextDelta) for event in said) <= 3
    usage = [event.usage for event in said if isinstance(event, UsageEvent)][-1]
    assert usage.reported
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
    assert said[-1] == StopEvent("end")


async def test_parallel_calls_are_put_together_from_their_fragments(
    mock: LLMockServer, provider: RemoteProvider
) -> None:
    expression = "17*23 + " * 20 + "1"
    mock.state.scenarios.add(
        Reply(
            tool_calls=(
                ToolCall("calculate", {"expression": expression}),
                ToolCall("clock", {}),
            )
        )
    )
    said = await ask(provider, request(user("hello"), tools=(CALCULATE, CLOCK)))
    calls = [event for event in said if isinstance(event, ToolUseEvent)]
    assert [(call.name, call.input) for call in calls] == [
        ("calculate", {"expression": expression}),
        ("clock", {}),
    ]
    assert len({call.id for call in calls}) == 2
    assert said[-1] == StopEvent("tool_use")


async def test_results_go_back_and_a_full_request_is_accepted(
    mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(Reply(text="391", times=2))
    done = (
        user("what is 17*23?"),
        assistant(ToolUse(id="call_1", name="calculate", input={"expression": "17*23"})),
        results(ToolResultPart(tool_use_id="call_1", content="391")),
    )
    assert text_of(await ask(provider, request(*done, tools=(CALCULATE,)))) == "391"
    assert (await ask(provider, FULL))[-1] == StopEvent("end")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "rejected"),
        (401, "auth"),
        (403, "auth"),
        (404, "rejected"),
        (413, "rejected"),
        (429, "rate_limited"),
        (500, "server"),
        (502, "server"),
        (503, "overloaded"),
        (529, "overloaded"),
    ],
)
async def test_a_status_is_a_typed_error(
    status: int, kind: str, mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(Fail(status, message="not this time"))
    error, said = await failure(provider)
    assert (error.kind, error.status) == (kind, status)
    assert "not this time" in str(error)
    assert said == []
    assert (await ask(provider, request(user("again"))))[-1] == StopEvent("end")


async def test_the_wait_of_a_429_is_passed_on(mock: LLMockServer, provider: RemoteProvider) -> None:
    mock.state.scenarios.add(Fail(429, retry_after=12))
    error, _ = await failure(provider)
    assert error.retry_after == 12


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("disconnect", "cut"),
        ("truncate", "cut"),
        ("malformed", "malformed"),
    ],
)
@pytest.mark.parametrize("after", [2, 5])
async def test_a_broken_stream_is_a_typed_error(
    fault: str, kind: str, after: int, mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(
        Reply(text="one two three four five six seven"),
        StreamFault(fault, after_chunks=after),  # type: ignore[arg-type]  # a parameter
    )
    error, _ = await failure(provider)
    assert error.kind == kind
    assert (await ask(provider, request(user("again"))))[-1] == StopEvent("end")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_stalls_is_a_timeout(kind: str, mock: LLMockServer, made: Make) -> None:
    mock.state.scenarios.add(
        Reply(text="one two three four five six seven"),
        StreamFault("stall", after_chunks=3, stall_seconds=1),
    )
    error, _ = await failure(made(kind, mock.base_url(kind), idle_seconds=0.1))
    assert error.kind == "timeout"


@pytest.mark.parametrize("fault", [SlowFirstToken(1.0), Delay(1.0)])
async def test_a_first_token_that_does_not_come_is_a_timeout(
    fault: SlowFirstToken | Delay, mock: LLMockServer, made: Make
) -> None:
    mock.state.scenarios.add(fault)
    error, _ = await failure(made("openai", mock.base_url("openai"), first_byte_seconds=0.1))
    assert error.kind == "timeout"


async def test_arguments_that_are_no_json_arrive_as_text(
    mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(
        Reply(tool_calls=(ToolCall("calculate", {"expression": "1"}),)),
        ToolFault("malformed_arguments"),
    )
    said = await ask(provider, request(user("hello"), tools=(CALCULATE,)))
    (call,) = (event for event in said if isinstance(event, ToolUseEvent))
    assert isinstance(call.input, str)


async def test_many_calls_side_by_side_do_not_mix(
    mock: LLMockServer, provider: RemoteProvider
) -> None:
    mock.state.scenarios.add(Reply(text="the same words for all", times=None))
    answers = await asyncio.gather(*(ask(provider, request(user(f"{n}"))) for n in range(12)))
    assert {text_of(said) for said in answers} == {"the same words for all"}

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.script import Events, Recorder, Script, Scripted, gateway, say

from hookgate.core.domain.models import ModelEvent, TextDelta
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl


class Filter:
    """Wraps the stream in what it is given."""

    def __init__(self, name: str, wrap: Any) -> None:
        self.name = name
        self.wrap = wrap

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        wrapped: AsyncIterator[ModelEvent] = self.wrap(events)
        return wrapped


async def upper(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event


async def twice(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        if isinstance(event, TextDelta):
            yield event


async def test_filters_wrap_each_other_in_call_order() -> None:
    filters = (Filter("twice", twice), Filter("upper", upper))
    async with gateway(Scripted(Script(say("a b"))), *filters) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "AA B B"


async def test_a_filter_may_wait_for_a_slow_source_as_long_as_it_takes() -> None:
    release = asyncio.Event()
    script = Script([TextDelta("slow"), release.wait, *say("answer")])
    filters = (Filter("upper", upper), Filter("twice", twice))
    tight = {"filter_stream": {"limit": 0.03}}
    events = Events()
    async with gateway(Scripted(script), *filters, hooks=tight) as gate:
        asyncio.get_running_loop().call_later(0.15, release.set)
        turn = await gate.chat("go", sink=events)
    assert turn.ending == "done"


async def stalls(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        await asyncio.Event().wait()


async def raises(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        raise RuntimeError("broken filter")


async def junk(events: AsyncIterator[ModelEvent]) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        yield "text"


async def cancels(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        raise asyncio.CancelledError


async def times_out(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        raise TimeoutError("its own")


@pytest.mark.parametrize("wrap", [stalls, raises, junk, cancels, times_out])
async def test_a_filter_that_fails_ends_the_call_as_cut_and_is_named(wrap: Any) -> None:
    recorder, events = Recorder(), Events()
    script = Script(say("one two three"))
    tight = {"filter_stream": {"limit": 0.03}}
    parts = (Scripted(script), Filter("bad", wrap), Filter("upper", upper), recorder)
    async with gateway(*parts, hooks=tight) as gate:
        turn = await gate.chat("go", sink=events)
    assert turn.ending == "failed"
    error = events.of("error")[0]
    assert "filter_stream of plugin 'bad'" in error["message"]
    assert [status for _, status, _ in recorder.after] == ["cut"]
    assert script.closed == 1


async def stops_early(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
    async for event in events:
        yield event
        return


async def test_a_filter_that_ends_the_answer_early_closes_the_source() -> None:
    recorder, script = Recorder(), Script(say("one two three"))
    async with gateway(Scripted(script), Filter("short", stops_early), recorder) as gate:
        turn = await gate.chat("go")
    assert turn.answer == "one"
    assert script.closed == 1
    assert [status for _, status, _ in recorder.after] == ["cut"]


async def test_a_failure_of_the_provider_is_not_blamed_on_a_filter() -> None:
    from hookgate.core.domain.errors import ProviderError

    script = Script([TextDelta("half"), ProviderError("cut", "the line went dead")])
    async with gateway(Scripted(script), Filter("upper", upper), Filter("twice", twice)) as gate:
        turn = await gate.chat("go")
    assert turn.error is not None
    assert turn.error.code == "provider_failed"
    assert "the line went dead" in str(turn.error)

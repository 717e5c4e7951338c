from __future__ import annotations

import asyncio
import time
from math import inf

import pytest
from tests.support.examples import sampled
from tests.support.heartbeat import HELD, Heartbeat, waited

from hookgate.builtin_plugins.wasm.engine.limits import GuestError, GuestRefusedError
from hookgate.builtin_plugins.wasm.engine.native import native
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

from .modules import CALLS, REFUSED, UNGRANTED, Hostile

TOOL = "handle_tool_call"
REQUEST = b'{"name": "tool", "input": {}}'
TOGETHER = (
    *("loop", "loop-with-endless-fuel", "recursion", "grows-until-it-is-full", "unreachable"),
    *("answers-at-minus-eight", "storm-of-host-calls", "sleeping-host-call"),
)
OF_EACH_SORT = ("shared-memory", "too-large", "hookgate.http")
"""What is refused, each for a reason of its own; each is compiled in a process of its own."""
OVER = 0.1
"""Seconds past its limit within which a guest must have ended, for a loop that gets a processor."""
GUESTS = "hookgate-wasm_"
"""How the names of guests' threads begin. They stand behind all others of a busy machine."""
TRIES = 5
"""On a busy machine one of so many must end in time, since it waits for the interpreter as well."""


async def load(sandbox: Sandbox, hostile: Hostile, data: bytes | None = None) -> Guest:
    return await sandbox.load(
        data if data is not None else hostile.make(),
        name="hostile",
        limits=hostile.limits,
        imports=hostile.imports,
        wasi=hostile.wasi,
    )


@pytest.mark.parametrize("name", sampled(CALLS, every=6))
async def test_a_hostile_call_ends_in_time_with_an_error_that_names_its_limit(
    name: str, sandbox: Sandbox
) -> None:
    hostile = CALLS[name]
    guest = await load(sandbox, hostile)
    until = inf if hostile.within is None else hostile.within + OVER
    took, held = [], []

    kind = ""
    while len(took) < TRIES or kind == "busy":
        async with Heartbeat(GUESTS) as heart:
            started = time.monotonic() - waited(GUESTS)
            with pytest.raises(GuestError) as found:
                await guest.call(TOOL, REQUEST, host=hostile.host)
            took.append(time.monotonic() - waited(GUESTS) - started)
        held.append(heart.longest)
        if (kind := found.value.kind) == "busy":
            continue  # the thread of guests, which stands behind all others, had no processor
        assert kind == hostile.kind, str(found.value)
        assert hostile.says in str(found.value)
        assert str(found.value).startswith("guest 'hostile': ")
        if took[-1] < until and held[-1] < HELD:
            break

    assert min(took) < until
    assert min(held) < HELD


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in OF_EACH_SORT else pytest.mark.slow)
        for name in REFUSED | UNGRANTED
    ],
)
async def test_a_hostile_module_is_refused_by_name(name: str, sandbox: Sandbox) -> None:
    hostile = (REFUSED | UNGRANTED)[name]
    data = hostile.make()
    await asyncio.to_thread(native)  # what the first guest alone waits for
    soon = inf if hostile.within is None else (hostile.within + OVER) * 3
    took, held = [], []

    for _ in range(TRIES):
        async with Heartbeat(GUESTS) as heart:
            started = time.monotonic() - waited(GUESTS)
            with pytest.raises(GuestRefusedError) as found:
                await load(sandbox, hostile, data)
            took.append(time.monotonic() - waited(GUESTS) - started)
        held.append(heart.longest)
        assert hostile.says in str(found.value)
        if took[-1] < soon and held[-1] < HELD:
            break

    assert min(took) < soon
    assert min(held) < HELD


@pytest.mark.slow
async def test_all_of_them_at_once_leave_the_event_loop_alone(sandbox: Sandbox) -> None:
    guests = [(CALLS[name], await load(sandbox, CALLS[name])) for name in TOGETHER]
    calls = [
        asyncio.create_task(guest.call(TOOL, REQUEST, host=one.host))
        for one, guest in guests
        for _ in range(4)
    ]
    turns = 0
    while not all(call.done() for call in calls):
        await asyncio.sleep(0.001)
        turns += 1
    found = await asyncio.gather(*calls, return_exceptions=True)

    assert turns > 20
    assert {type(one) for one in found} == {GuestError}

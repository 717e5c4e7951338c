"""Reading many sources: what one does wrong is its own, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.inventory.acme import OWNER, Acme, record
from tests.support.script import until

from hookgate import CapabilityChange, CapabilityRecord, RuntimeDisconnectedError
from hookgate.builtin_plugins.inventory.multiplexer import Multiplexer, SourceReading

GOOD = record("good", "good")
SHORT = 0.05


class Source:
    """A source whose `read` is a function."""

    def __init__(self, read: Any) -> None:
        self.id = "odd"
        self.read = read

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        raise AssertionError("nothing is written here")


def beside(read: Any, **limits: float) -> Multiplexer:
    """Return a source that reads as `read` does, beside one that is fine."""
    sources: dict[str, Any] = {"odd": Source(read), "good": Acme(GOOD, name="good")}
    return Multiplexer(sources, **{"read_seconds": SHORT, **limits})


async def both(multiplexer: Multiplexer) -> SourceReading:
    """Read both, and return the reading of the odd one; the other one is always fine."""
    odd, good = await multiplexer.read()
    assert (good.records, good.why) == ((GOOD,), "")
    return odd


async def raises() -> Sequence[CapabilityRecord]:
    raise ConnectionError("gone")


async def hangs() -> Sequence[CapabilityRecord]:
    await asyncio.Event().wait()
    return []


async def exits() -> Sequence[CapabilityRecord]:
    raise SystemExit(3)


async def cancels() -> Sequence[CapabilityRecord]:
    raise asyncio.CancelledError


def plain() -> Sequence[CapabilityRecord]:
    raise OSError("no such folder")


def exits_on_its_thread() -> Sequence[CapabilityRecord]:
    raise SystemExit(3)


async def returns_nothing() -> Any:
    return None


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (raises, "ConnectionError: gone"),
        (hangs, "it did not answer within 0.05 s"),
        (exits, "RuntimeError: it raised SystemExit"),
        (cancels, "its read was cancelled"),
        (plain, "OSError: no such folder"),
        (exits_on_its_thread, "RuntimeError: SystemExit: 3"),
        (returns_nothing, "it returned a NoneType, where a list of records was expected"),
    ],
)
async def test_a_source_that_fails_is_degraded_and_the_others_are_read(read: Any, why: str) -> None:
    odd = await both(beside(read))

    assert (odd.records, odd.why) == (None, why)


async def test_what_a_source_says_is_readable_before_anybody_sees_it() -> None:
    async def odd() -> Sequence[CapabilityRecord]:
        return [replace(record("odd", "odd"), description="one\nstatus: ready \u202e")]

    found = await both(beside(odd))
    assert found.records is not None
    assert [one.description for one in found.records] == [r"one status: ready \u202e"]


async def test_a_plain_read_runs_on_a_thread_of_its_own() -> None:
    seen: list[str] = []

    def read() -> Sequence[CapabilityRecord]:
        seen.append(threading.current_thread().name)
        return [record("a", "odd")]

    odd = await both(beside(read, read_seconds=10))

    assert odd.records == (record("a", "odd"),)
    assert seen == ["inventory"]


async def test_sources_are_read_side_by_side_each_in_its_own_time() -> None:
    sources: dict[str, Any] = {}
    running = most = 0

    async def counted() -> Sequence[CapabilityRecord]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return await hangs()
        finally:
            running -= 1

    for number in range(8):
        sources[f"s{number}"] = Source(counted)
    multiplexer = Multiplexer(sources, read_seconds=0.3)

    readings = await multiplexer.read()

    assert [one.records for one in readings] == [None] * 8
    assert most == 8


async def test_one_that_ignores_its_end_is_not_asked_again_before_it_has_ended() -> None:
    begun, let_go = [], asyncio.Event()

    async def stubborn() -> Sequence[CapabilityRecord]:
        begun.append(1)
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return []

    multiplexer = beside(stubborn)
    for _ in range(3):
        assert (await both(multiplexer)).records is None
    assert len(begun) == 1
    let_go.set()
    assert (await both(multiplexer)).records == ()
    await multiplexer.close()


async def test_a_thread_that_hangs_is_the_only_one_of_its_source() -> None:
    begun, let_go = [], threading.Event()

    def read() -> Sequence[CapabilityRecord]:
        begun.append(1)
        let_go.wait(30)
        return []

    multiplexer = beside(read)
    assert (await both(multiplexer)).why == "it did not answer within 0.05 s"
    again = await both(multiplexer)
    assert "the read before hangs still" in again.why
    assert len(begun) == 1
    let_go.set()
    await until(lambda: not any(one.name == "inventory" for one in threading.enumerate()))
    assert (await both(multiplexer)).records == ()


async def test_a_thread_that_has_answered_hangs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    class Lingers(threading.Thread):
        """Lives on after its work, as a thread does that others leave no time to end."""

        def run(self) -> None:
            super().run()
            let_go.wait(30)

    monkeypatch.setattr(threading, "Thread", Lingers)
    multiplexer = beside(list, read_seconds=30)
    try:
        first = await both(multiplexer)
        again = await both(multiplexer)
        assert (first.why, again.why) == ("", "")
    finally:
        let_go.set()


async def test_two_readers_share_one_read_and_a_fresh_one_begins_after_it_was_asked_for() -> None:
    begun, let_go = [], asyncio.Event()

    async def slow() -> Sequence[CapabilityRecord]:
        begun.append(len(begun))
        await let_go.wait()
        return []

    multiplexer = Multiplexer({"odd": Source(slow)}, read_seconds=10)  # type: ignore[dict-item]
    first = [asyncio.create_task(multiplexer.read_one("odd")) for _ in range(2)]
    await until(lambda: len(begun) == 1)
    fresh = asyncio.create_task(multiplexer.read_one("odd", fresh=True))
    let_go.set()
    numbers = [(await task).number for task in (*first, fresh)]

    assert begun == [0, 1]
    assert numbers == [1, 1, 2]


async def test_what_is_wrong_with_records_is_left_out_and_told() -> None:
    fine = record("a", "odd")

    async def read() -> Any:
        strange = record("b", "odd")
        object.__setattr__(strange, "description", None)
        return [fine, fine, record("a", "good"), "text", record("c", "odd", kind="spell"), strange]

    odd = await both(beside(read))

    assert odd.records == (fine,)
    assert odd.why.startswith("5 left out: 'odd:odd:global:global:connector:a' comes twice; found")
    assert "expected 'odd:good:" in odd.why


async def test_what_has_not_changed_is_the_very_same_object() -> None:
    source = Acme(record("a"), record("b"))
    multiplexer = Multiplexer({"acme": source})
    first, again = await multiplexer.read_one("acme"), await multiplexer.read_one("acme")
    source.records.popitem()
    changed = await multiplexer.read_one("acme")

    assert first.records is again.records
    assert changed.records == (record("a"),)


async def test_a_change_that_takes_too_long_is_told_as_that() -> None:
    class Slow(Acme):
        async def write(self, change: CapabilityChange) -> CapabilityRecord:
            await asyncio.Event().wait()
            raise AssertionError

    multiplexer = Multiplexer({"acme": Slow(record())}, write_seconds=SHORT)
    change = CapabilityChange(action="disable", by=OWNER, record=record())

    with pytest.raises(RuntimeDisconnectedError, match=r"did not answer within 0\.05 s"):
        await multiplexer.write("acme", change)


@pytest.mark.parametrize("returned", [None, "done", record("x", "other")])
async def test_a_change_returns_a_record_of_its_source(returned: Any) -> None:
    class Odd(Acme):
        async def write(self, change: CapabilityChange) -> CapabilityRecord:
            return returned  # type: ignore[no-any-return]

    multiplexer = Multiplexer({"acme": Odd()})

    with pytest.raises(RuntimeError, match="returned no record of its own"):
        await multiplexer.write("acme", CapabilityChange(action="disable", by=OWNER))

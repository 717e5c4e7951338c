from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.storage.engine.writer import Room


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_places_are_handed_out_in_the_order_of_arrival() -> None:
    room, got = Room(1), []

    async def enter(number: int) -> None:
        if not room.take():
            await room.wait()
        got.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(4)]
    await settle()
    assert got == [0]
    room.give(2)
    # Who comes now does not pass those who wait already.
    assert not room.take()
    await settle()
    assert got == [0, 1, 2]
    room.give(1)
    await asyncio.gather(*tasks)
    assert got == [0, 1, 2, 3]


async def test_a_place_that_reaches_a_cancelled_waiter_goes_to_the_next() -> None:
    room = Room(1)
    assert room.take()
    first, second = (asyncio.create_task(room.wait()) for _ in range(2))
    await settle()
    room.give(1)
    first.cancel()
    await settle()
    assert first.cancelled()
    assert second.done()


async def test_a_waiter_that_leaves_the_line_takes_nothing_with_it() -> None:
    room = Room(1)
    assert room.take()
    waiting = asyncio.create_task(room.wait())
    await settle()
    waiting.cancel()
    await settle()
    room.give(1)
    assert room.take()
    assert not room.take()


@given(
    places=st.integers(1, 3),
    steps=st.lists(st.sampled_from(("come", "leave", "cancel")), max_size=30),
)
async def test_never_are_more_inside_than_there_are_places_and_nobody_is_forgotten(
    places: int, steps: list[str]
) -> None:
    room, inside, waiting = Room(places), 0, []

    async def enter() -> None:
        nonlocal inside
        await room.wait()
        inside += 1

    for step in steps:
        if step == "come":
            if room.take():
                inside += 1
            else:
                waiting.append(asyncio.create_task(enter()))
        elif step == "leave" and inside:
            inside -= 1
            room.give(1)
        elif step == "cancel" and waiting:
            waiting[len(waiting) // 2].cancel()
        await settle()
        assert inside <= places
        waiting = [task for task in waiting if not task.done()]
        assert not waiting or inside == places
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

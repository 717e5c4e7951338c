"""Work beside a turn, as it is ended."""

from __future__ import annotations

import asyncio

from hookgate.tasks import stop


async def test_stopped_tasks_are_over_however_they_end() -> None:
    said: list[str] = []

    async def lingering() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            said.append("cleaned up")

    async def failing() -> None:
        raise ValueError("on its own account")

    tasks = [asyncio.create_task(lingering()), asyncio.create_task(failing())]
    await asyncio.sleep(0)

    await stop(*tasks, None)

    assert said == ["cleaned up"]
    assert tasks[0].cancelled()
    assert isinstance(tasks[1].exception(), ValueError)


async def test_a_task_with_time_left_ends_by_itself_before_it_is_stopped() -> None:
    may_end = asyncio.Event()

    async def ending() -> str:
        await may_end.wait()
        return "whole"

    ended = asyncio.create_task(ending())
    hanging = asyncio.create_task(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(may_end.set)

    await stop(ended, hanging, grace=0.05)

    assert ended.result() == "whole"
    assert hanging.cancelled()

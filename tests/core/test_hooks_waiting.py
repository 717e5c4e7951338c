"""Limits and cancellation of implementations that suspend, on asyncio's loop and uvloop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop
from tests.support.hooking import SHORT, Log, Run, forever, hooks_of, plugin

from hookgate import hookspecs
from hookgate.core.domain.descriptors import Card
from hookgate.core.domain.errors import HookError, HookTimeoutError
from hookgate.core.domain.models import Refusal
from hookgate.core.hooks.caller import Hooks
from hookgate.hookspecs import blocking

TURN: Any = object()
LATE = Refusal(code="late", message="")


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield lambda work: runner.run(in_time(work))


async def in_time(work: Coroutine[Any, Any, Any]) -> Any:
    async with asyncio.timeout(120):
        return await work


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.core.hooks.limits.GRACE", SHORT)


async def cancelled_while(waits: Callable[..., Any], work: Callable[[], Any]) -> asyncio.Task[Any]:
    """Start `work`, cancel it once `waits` has been entered, and return its ended task."""
    entered: asyncio.Event = waits.entered  # type: ignore[attr-defined]
    task = asyncio.ensure_future(work())
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    return task


def entering(function: Callable[[], Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return an implementation of `before_turn` that says when it has been entered."""

    async def implementation(turn: Any) -> Any:
        entered.set()
        return await function()

    entered = implementation.entered = asyncio.Event()  # type: ignore[attr-defined]
    return implementation


# -- what suspends and ends in time -------------------------------------------------------


async def bare_yield(turn: Any) -> Refusal:
    await asyncio.sleep(0)
    return LATE


async def one_future(turn: Any) -> Refusal:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    await future
    return LATE


async def several_times(turn: Any) -> Refusal:
    for _ in range(5):
        await bare_yield(turn)
        await one_future(turn)
    return LATE


async def a_task(turn: Any) -> Refusal:
    return await asyncio.ensure_future(several_times(turn))


async def gathered(turn: Any) -> Refusal:
    one, _ = await asyncio.gather(several_times(turn), a_task(turn))
    return one


async def in_a_group(turn: Any) -> Refusal:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(several_times(turn))
        group.create_task(gathered(turn))
    return task.result()


async def on_a_thread(turn: Any) -> Refusal:
    return await asyncio.to_thread(lambda: LATE)


async def own_timeout_handled(turn: Any) -> Refusal:
    try:
        async with asyncio.timeout(0.001):
            await forever()
    except TimeoutError:
        await asyncio.sleep(0)
    return LATE


async def wait_for_handled(turn: Any) -> Refusal:
    try:
        await asyncio.wait_for(forever(), 0.001)
    except TimeoutError:
        return await several_times(turn)
    return Refusal(code="never", message="")


async def cancels_its_own_task(turn: Any) -> Refusal:
    task = asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return LATE


async def a_failing_group_handled(turn: Any) -> Refusal:
    async def breaks() -> None:
        raise ValueError

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(breaks())
            await forever()
    except* ValueError:
        pass
    return LATE


SUSPENDING = (
    bare_yield,
    one_future,
    several_times,
    a_task,
    gathered,
    in_a_group,
    on_a_thread,
    own_timeout_handled,
    wait_for_handled,
    cancels_its_own_task,
    a_failing_group_handled,
)


@pytest.mark.parametrize("waits", SUSPENDING)
def test_a_result_after_suspending_is_like_any_other(run: Run, waits: Any) -> None:
    async def main() -> None:
        hooks = hooks_of(
            plugin(before_turn=waits),
            plugin(before_turn=lambda turn: Refusal(code="sync", message="")),
            plugin(before_turn=waits),
        )
        task = asyncio.current_task()
        assert task is not None
        results = await hooks.each(hookspecs.before_turn, TURN)
        assert [one.code for one in results] == ["late", "sync", "late"]
        assert task.cancelling() == 0

    run(main())


def test_an_error_after_suspending_is_a_failure(run: Run) -> None:
    async def breaks(turn: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("after a while")

    async def main() -> None:
        hooks = hooks_of(plugin(before_turn=breaks))
        with pytest.raises(HookError, match="ValueError: after a while") as caught:
            await hooks.each(hookspecs.before_turn, TURN)
        assert isinstance(caught.value.__cause__, ValueError)

    run(main())


def test_the_current_task_and_context_are_the_callers_before_and_after_suspending(run: Run) -> None:
    seen = []

    async def looks(turn: Any) -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    async def main() -> None:
        await hooks_of(plugin(after_turn=lambda turn: None, tag_turn=looks)).each(
            hookspecs.tag_turn, TURN
        )
        assert seen == [asyncio.current_task()] * 2

    run(main())


def test_a_dispatch_inside_a_dispatch_keeps_both_contracts(run: Run) -> None:
    async def main() -> None:
        async def nested(turn: Any) -> Any:
            return set(await hooks.each(hookspecs.withhold_capabilities, turn, TURN)) and {"x"}

        async def hangs(turn: Any) -> None:
            await forever()

        log = Log()
        inner = plugin(withhold_capabilities=hangs)
        hooks = hooks_of(
            plugin(tag_turn=nested), inner, limits={"withhold_capabilities": SHORT}, log=log
        )
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [(line["hook"], line["kind"]) for line in log.lines] == [
            ("withhold_capabilities", "timeout"),
            ("tag_turn", "raised"),
        ]
        hooks = hooks_of(plugin(tag_turn=nested), inner, limits={"tag_turn": SHORT}, log=log)
        log.lines.clear()
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [(line["hook"], line["kind"]) for line in log.lines] == [("tag_turn", "timeout")]

    run(main())


# -- limits ------------------------------------------------------------------------------


def test_an_implementation_that_hangs_is_cancelled_cleans_up_and_is_said(run: Run) -> None:
    steps: list[str] = []

    async def hangs(turn: Any) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        hooks = hooks_of(plugin(before_turn=hangs), limit=SHORT)
        with pytest.raises(HookTimeoutError, match=r"'p0' failed: suspended .* limit of 0.02 s$"):
            await hooks.each(hookspecs.before_turn, TURN)
        assert steps == ["cleaned up"]
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    run(main())


def test_each_implementation_has_a_limit_of_its_own(run: Run) -> None:
    called: list[str] = []

    def hangs(name: str) -> Any:
        async def waits(turn: Any) -> None:
            called.append(name)
            await forever()

        return waits

    async def main() -> None:
        log = Log()
        hooks = hooks_of(
            plugin(tag_turn=hangs("c")),
            plugin(tag_turn=lambda: {"b"}),
            plugin(tag_turn=hangs("a")),
            limit=SHORT,
            log=log,
        )
        assert await hooks.each(hookspecs.tag_turn, TURN) == [{"b"}]
        assert called == ["a", "c"]
        assert [(line["plugin"], line["kind"]) for line in log.lines] == [
            ("p2", "timeout"),
            ("p0", "timeout"),
        ]

    run(main())


# Work on a machine with too much to do: a little of it, and a long wait for the next turn.
@blocking
def works_slowly(turn: Any) -> set[str]:
    done = time.thread_time() + 0.1
    while time.thread_time() < done:
        until = min(done, time.thread_time() + 0.005)
        while time.thread_time() < until:
            pass
        time.sleep(0.06)
    return {"done"}


needs_clocks = pytest.mark.skipif(
    not hasattr(time, "pthread_getcpuclockid"), reason="threads cannot be looked at here"
)


@needs_clocks
def test_work_on_a_thread_has_its_limit_in_time_of_the_processor(run: Run) -> None:
    """It takes 1.2 seconds and a tenth of a second of work, and two calls wait for each other."""
    one = threading.Lock()

    @blocking
    def waits_for_the_other(turn: Any) -> set[str]:
        with one:
            return works_slowly(turn)

    async def main() -> None:
        hooks = hooks_of(plugin(tag_turn=waits_for_the_other), limit=1)
        calls = (hooks.each(hookspecs.tag_turn, TURN) for _ in range(2))
        assert await asyncio.gather(*calls) == [[{"done"}]] * 2
        await hooks.close()

    run(main())


@pytest.mark.parametrize("works", [True, False])
def test_work_on_a_thread_that_does_not_end_is_left_alone(
    run: Run, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is busy, which is over once it has had its limit of the processor, or hangs."""
    monkeypatch.setattr("hookgate.core.hooks.limits.LATE", 10_000)
    if works:  # also where other programs leave it nothing for a while
        monkeypatch.setattr("hookgate.core.hooks.limits.WORKING", 0.0)
    over = threading.Event()

    @blocking
    def hangs(turn: Any) -> None:
        while works and not over.is_set():
            pass
        over.wait()

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=hangs), limit=0.05, log=log)
        try:
            assert await hooks.each(hookspecs.tag_turn, TURN) == []
        finally:
            over.set()
        assert [line["kind"] for line in log.lines] == ["timeout"]
        await hooks.close()

    run(main())


def test_work_on_a_thread_has_some_limits_by_the_clock_on_the_wall_at_most(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgate.core.hooks.limits.LATE", 2)

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=works_slowly), limit=0.3, log=log)
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [line["kind"] for line in log.lines] == ["timeout"]
        await hooks.close()

    run(main())


def test_a_result_that_comes_after_the_limit_does_not_count(run: Run) -> None:
    async def answers_late(turn: Any) -> Any:
        try:
            await forever()
        except asyncio.CancelledError:
            return {"too late"}

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=answers_late), limit=SHORT, log=log)
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [line["kind"] for line in log.lines] == ["timeout"]

    run(main())


def test_an_error_in_place_of_the_cancellation_is_still_a_timeout(run: Run) -> None:
    async def breaks(turn: Any) -> Any:
        try:
            await forever()
        except asyncio.CancelledError:
            raise ValueError("in the clean-up") from None

    async def main() -> None:
        hooks = hooks_of(plugin(before_turn=breaks), limit=SHORT)
        with pytest.raises(HookTimeoutError) as caught:
            await hooks.each(hookspecs.before_turn, TURN)
        assert isinstance(caught.value.__cause__, ValueError)

    run(main())


def test_a_timeout_of_the_implementations_own_is_its_error_not_ours(run: Run) -> None:
    async def own(turn: Any) -> None:
        async with asyncio.timeout(0.001):
            await forever()

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=own), log=log)
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [(line["kind"], line["reason"]) for line in log.lines] == [
            ("raised", "TimeoutError")
        ]

    run(main())


def test_a_longer_timeout_of_the_callers_does_not_disturb(run: Run) -> None:
    async def hangs(turn: Any) -> None:
        await forever()

    async def main() -> None:
        hooks = hooks_of(plugin(tag_turn=hangs), limit=SHORT)
        async with asyncio.timeout(120) as outer:
            assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert not outer.expired()

    run(main())


def test_a_shorter_timeout_of_the_callers_is_the_callers(run: Run) -> None:
    async def hangs(turn: Any) -> None:
        await forever()

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=hangs), log=log)
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await hooks.each(hookspecs.tag_turn, TURN)
        assert task.cancelling() == 0
        assert log.lines == []

    run(main())


async def swallows(leave: asyncio.Event) -> None:
    while not leave.is_set():
        try:
            await leave.wait()
        except asyncio.CancelledError:
            continue


async def stubborn_task(leave: asyncio.Event) -> None:
    await asyncio.ensure_future(swallows(leave))


async def stubborn_gather(leave: asyncio.Event) -> None:
    await asyncio.gather(swallows(leave))


async def stubborn_group(leave: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(swallows(leave))


async def waits_in_its_cleanup(leave: asyncio.Event) -> None:
    try:
        await leave.wait()
    finally:
        await leave.wait()


async def fails_when_closed(leave: asyncio.Event) -> None:
    try:
        await swallows(leave)
    finally:
        raise ValueError("closing")


STUBBORN = (
    swallows,
    stubborn_task,
    stubborn_gather,
    stubborn_group,
    waits_in_its_cleanup,
    fails_when_closed,
)


def implementing(waits: Callable[[asyncio.Event], Any], leave: asyncio.Event) -> Any:
    async def implementation(turn: Any) -> None:
        await waits(leave)

    return implementation


async def let_go(leave: asyncio.Event) -> None:
    """End what an abandoned implementation has left running."""
    leave.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.parametrize("waits", STUBBORN)
def test_one_that_ignores_its_cancellation_is_abandoned(
    run: Run, waits: Any, short_grace: None
) -> None:
    async def main() -> None:
        log, leave = Log(), asyncio.Event()
        hooks = hooks_of(
            plugin(tag_turn=lambda: {"next"}),
            plugin(tag_turn=implementing(waits, leave)),
            limit=SHORT,
            log=log,
        )
        task = asyncio.current_task()
        assert task is not None
        assert await hooks.each(hookspecs.tag_turn, TURN) == [{"next"}]
        assert [line["kind"] for line in log.lines] == ["timeout"]
        assert "was abandoned" in log.lines[0]["reason"]
        assert task.cancelling() == 0
        await let_go(leave)

    run(main())


@pytest.mark.parametrize("waits", STUBBORN)
def test_a_cancelled_turn_waits_for_a_stubborn_implementation_no_longer_than_its_limit(
    run: Run, waits: Any, short_grace: None
) -> None:
    async def main() -> None:
        log, leave = Log(), asyncio.Event()
        hooks = hooks_of(plugin(tag_turn=implementing(waits, leave)), limit=SHORT, log=log)
        dispatch = asyncio.ensure_future(hooks.each(hookspecs.tag_turn, TURN))
        await asyncio.sleep(0)
        dispatch.cancel()
        await asyncio.wait([dispatch])
        assert dispatch.cancelled()
        assert log.lines == []
        await let_go(leave)

    run(main())


def test_one_that_ignores_being_closed_ends_the_dispatch(run: Run, short_grace: None) -> None:
    async def immortal(turn: Any) -> None:
        for _ in range(5):
            try:
                await forever()
            except BaseException:
                continue

    async def main() -> None:
        hooks = hooks_of(plugin(tag_turn=immortal), limit=SHORT)
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(HookTimeoutError, match="tag_turn of plugin 'p0'"):
            await hooks.each(hookspecs.tag_turn, TURN)
        assert task.cancelling() == 0

    run(main())


# -- cancellation ------------------------------------------------------------------------


async def obeys() -> None:
    await forever()


async def cleans_up() -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(0)


async def swallows_once() -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        return


async def goes_on() -> None:
    await swallows_once()
    await asyncio.sleep(0)


async def raises_instead() -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        raise ValueError("instead") from None


async def own_timeout_around() -> None:
    async with asyncio.timeout(10):
        await forever()


async def a_group_around() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(forever())


async def a_task_inside() -> None:
    await asyncio.ensure_future(forever())


async def a_gather_inside() -> None:
    await asyncio.gather(forever(), forever())


WAYS = (
    obeys,
    cleans_up,
    swallows_once,
    goes_on,
    raises_instead,
    own_timeout_around,
    a_group_around,
    a_task_inside,
    a_gather_inside,
)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_cancellation_goes_through_wherever_it_arrives(run: Run, way: Any, position: int) -> None:
    async def main() -> None:
        called: list[int] = []
        waits = entering(way)

        def implementation(number: int) -> Any:
            if number == position:
                return waits
            return lambda turn: called.append(number)

        log = Log()
        # The last one registered is the first one called.
        hooks = hooks_of(*(plugin(before_turn=implementation(n)) for n in (2, 1, 0)), log=log)
        task = await cancelled_while(waits, lambda: hooks.each(hookspecs.before_turn, TURN))
        assert task.cancelled()
        assert task.cancelling() == 1
        assert called == list(range(position))
        assert log.lines == []

    run(main())


def combinations(hooks: Hooks) -> list[Callable[[], Coroutine[Any, Any, Any]]]:
    card = Card(id="x", text="")
    (tags,) = hooks.implementations(hookspecs.tag_turn)
    return [
        lambda: hooks.each(hookspecs.tag_turn, TURN),
        lambda: hooks.each_by_plugin(hookspecs.tag_turn, TURN),
        lambda: hooks.first(hookspecs.judge_turn, TURN),
        lambda: hooks.fold(hookspecs.sanitize_card, card),
        lambda: hooks.notify(hookspecs.after_turn, TURN, TURN),
        lambda: hooks.run_one(tags, TURN),
        lambda: hooks.guard(tags, tags.target(TURN)),
    ]


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("traced", [False, True])
def test_a_cancellation_goes_through_every_combination(run: Run, number: int, traced: bool) -> None:
    async def main() -> None:
        outcomes: list[str] = []
        waits = entering(obeys)

        def shaped(*names: str) -> Any:
            # One function per hook, since each takes other arguments.
            return lambda: waits(None)

        hooks = hooks_of(
            plugin(tag_turn=waits, judge_turn=shaped(), sanitize_card=shaped(), after_turn=shaped())
        )
        hooks.spans = (lambda span: outcomes.append(span.outcome)) if traced else None
        task = await cancelled_while(waits, combinations(hooks)[number])
        assert task.cancelled()
        guarded = number == 6
        assert outcomes == (["cancelled from outside"] if traced and not guarded else [])

    run(main())


@pytest.mark.parametrize("suspends", [False, True])
def test_a_cancelled_error_without_a_cancellation_is_a_failure(run: Run, suspends: bool) -> None:
    async def cancels(turn: Any) -> None:
        if suspends:
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=lambda: {"next"}), plugin(tag_turn=cancels), log=log)
        assert await hooks.each(hookspecs.tag_turn, TURN) == [{"next"}]
        assert [line["kind"] for line in log.lines] == ["cancelled"]

    run(main())


def test_awaiting_what_somebody_else_cancelled_is_a_failure(run: Run) -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def awaits(turn: Any) -> None:
            asyncio.get_running_loop().call_soon(future.cancel)
            await future

        log = Log()
        hooks = hooks_of(plugin(tag_turn=awaits), log=log)
        assert await hooks.each(hookspecs.tag_turn, TURN) == []
        assert [line["kind"] for line in log.lines] == ["cancelled"]

    run(main())


def test_an_own_cancelled_error_is_a_failure_while_a_cancelled_task_cleans_up(
    run: Run,
) -> None:
    async def cancels(turn: Any) -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=cancels), log=log)
        results: list[Any] = []

        async def work() -> None:
            try:
                await forever()
            finally:
                results.append(await hooks.each(hookspecs.tag_turn, TURN))

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert results == [[]]
        assert [line["kind"] for line in log.lines] == ["cancelled"]
        assert task.cancelled()

    run(main())


def test_a_cancellation_that_an_implementation_requests_itself_goes_through(run: Run) -> None:
    def requests(turn: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def waits(turn: Any) -> None:
        await forever()

    async def main() -> None:
        log = Log()
        hooks = hooks_of(plugin(tag_turn=waits), plugin(tag_turn=requests), log=log)
        task = asyncio.ensure_future(hooks.each(hookspecs.tag_turn, TURN))
        await asyncio.wait([task])
        assert task.cancelled()
        assert log.lines == []

    run(main())


def test_limit_and_cancellation_at_once_are_a_cancellation(run: Run) -> None:
    async def main() -> None:
        async def hangs(turn: Any) -> None:
            try:
                await forever()
            except asyncio.CancelledError:
                # Our own limit has cancelled us; now somebody else does, too.
                outer.cancel()
                await forever()

        log = Log()
        hooks = hooks_of(plugin(tag_turn=hangs), limit=SHORT, log=log)
        outer = asyncio.ensure_future(hooks.each(hookspecs.tag_turn, TURN))
        await asyncio.wait([outer])
        assert outer.cancelled()
        assert outer.cancelling() == 1
        assert log.lines == []

    run(main())


def test_closing_a_dispatch_closes_what_it_waits_for() -> None:
    closed: list[str] = []

    async def waits(turn: Any) -> None:
        try:
            await forever()
        except GeneratorExit:
            closed.append("closed")
            raise

    async def main() -> None:
        dispatch = hooks_of(plugin(tag_turn=waits)).each(hookspecs.tag_turn, TURN)
        dispatch.send(None)
        dispatch.close()

    asyncio.run(main())
    assert closed == ["closed"]


def test_suspending_outside_of_a_task_is_an_error_that_says_so() -> None:
    async def waits(turn: Any) -> None:
        await forever()

    dispatch = hooks_of(plugin(tag_turn=waits)).each(hookspecs.tag_turn, TURN)
    loop = asyncio.new_event_loop()
    try:
        loop.call_soon(lambda: outcome.append(_step(dispatch)))
        outcome: list[BaseException] = []
        loop.call_soon(loop.stop)
        loop.run_forever()
    finally:
        loop.close()
    assert "takes an asyncio task" in str(outcome[0])


def _step(coroutine: Coroutine[Any, Any, Any]) -> BaseException:
    with pytest.raises(RuntimeError) as caught:
        coroutine.send(None)
    return caught.value


# -- what is concluded whatever happens to its caller --------------------------------------


class Awaited:
    """Something of a plugin's own that can be awaited."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work

    def __await__(self) -> Any:
        return self._work.__await__()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("hand_over", ["function", "coroutine", "awaitable"])
def test_what_is_concluded_goes_on_when_its_caller_is_cancelled(
    run: Run, hand_over: str, traced: bool
) -> None:
    async def main() -> None:
        begun, go_on, done = asyncio.Event(), asyncio.Event(), list[str]()

        async def waits(turn: Any) -> None:
            begun.set()
            await go_on.wait()
            async with asyncio.timeout(10):  # of the task that it is in now
                await asyncio.sleep(0)
            done.append("waited")

        def coroutine(turn: Any) -> Any:
            return waits(turn)

        def awaitable(turn: Any) -> Any:
            return Awaited(waits(turn))

        ways = {"function": waits, "coroutine": coroutine, "awaitable": awaitable}
        hooks = hooks_of(
            plugin(turn_ended=lambda turn: done.append("last")),
            plugin(turn_ended=ways[hand_over]),
            plugin(turn_ended=lambda turn: done.append("first")),
        )
        if traced:
            hooks.spans = lambda span: None
        task = asyncio.create_task(hooks.conclude(hookspecs.turn_ended, TURN))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        await asyncio.wait([task])
        assert (task.cancelled(), done) == (True, ["first", "waited", "last"])

    run(main())


def test_what_is_concluded_has_no_task_of_its_own_where_nothing_waits(run: Run) -> None:
    async def main() -> None:
        tasks: list[Any] = []
        one, other = (
            plugin(turn_ended=lambda turn: tasks.append(asyncio.current_task())) for _ in range(2)
        )
        await hooks_of(one, other).conclude(hookspecs.turn_ended, TURN)
        assert tasks == [asyncio.current_task()] * 2

    run(main())


def test_what_is_concluded_has_its_limit(run: Run) -> None:
    async def main() -> None:
        async def waits(turn: Any) -> None:
            await forever()

        hooks, failed = hooks_of(plugin(turn_ended=waits), limit=SHORT), list[str]()
        hooks.failed = lambda failure: failed.append(failure.kind)
        await hooks.conclude(hookspecs.turn_ended, TURN)
        assert failed == ["timeout"]

    run(main())

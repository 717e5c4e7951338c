from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest
from tests.support.hooking import SHORT, Log, forever, hooks_of, manager_of, plugin

from hookgate import hookspecs
from hookgate.core.domain.descriptors import Card, Rejected, Selection
from hookgate.core.domain.errors import ConfigError, HookError, HookResultError, StartError
from hookgate.core.domain.events import HookSpan
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.tools import Verdict
from hookgate.core.domain.turn import Outcome
from hookgate.core.hooks.caller import Hooks
from hookgate.core.hooks.dispatch import HookFailure
from hookgate.core.settings.schema import HookSettings
from hookgate.hookspecs import blocking, hookimpl, hookspec

TURN: Any = type("FakeTurn", (), {"id": "turn_1"})()
ANY: Any = object()


def refuse(code: str) -> Callable[..., Any]:
    return lambda turn: Refusal(code=code, message=code)


def fails(turn: Any) -> Any:
    raise ValueError("no such table\nand a second line")


async def suspends(turn: Any) -> Any:
    await asyncio.sleep(0)
    return Refusal(code="late", message="late")


# -- how results combine ---------------------------------------------------------------


async def test_each_returns_the_results_that_are_not_none_in_call_order() -> None:
    hooks = hooks_of(
        plugin(before_turn=refuse("a")),
        plugin(before_turn=lambda turn: None),
        plugin(before_turn=refuse("c")),
    )
    assert [one.code for one in await hooks.each(hookspecs.before_turn, TURN)] == ["c", "a"]


async def test_arguments_may_be_given_by_name_and_implementations_take_what_they_want() -> None:
    seen: list[Any] = []
    hooks = hooks_of(plugin(before_tool_call=lambda call: seen.append(call)))
    await hooks.each(hookspecs.before_tool_call, call=1, turn=TURN)  # type: ignore[arg-type]
    await hooks.each(hookspecs.before_tool_call, TURN, call=2)  # type: ignore[arg-type]
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"turn": 1}), ((1,), {"cal": 2}), ((1, 2), {"call": 2})],
)
async def test_wrong_arguments_are_a_type_error_that_names_the_hook(args: Any, kwargs: Any) -> None:
    hooks = hooks_of()
    with pytest.raises(TypeError, match=r"before_tool_call takes \(turn, call\)"):
        await hooks.each(hookspecs.before_tool_call, *args, **kwargs)


async def test_first_stops_at_the_first_result() -> None:
    called: list[str] = []

    async def nothing(turn: Any) -> None:
        called.append("nothing")

    async def judges(turn: Any) -> Outcome:
        called.append("judges")
        return Outcome(status="completed", score=1.0, source="test")

    hooks = hooks_of(
        plugin(judge_turn=lambda turn: called.append("never")),
        plugin(judge_turn=judges),
        plugin(judge_turn=nothing),
    )
    outcome = await hooks.first(hookspecs.judge_turn, TURN)
    assert outcome is not None
    assert outcome.source == "test"
    assert called == ["nothing", "judges"]


async def test_first_of_nobody_is_none() -> None:
    assert await hooks_of().first(hookspecs.judge_turn, TURN) is None


async def test_fold_passes_the_last_argument_through() -> None:
    def adds(mark: str) -> Callable[..., Any]:
        return lambda card: Card(id=card.id, text=card.text + mark)

    hooks = hooks_of(
        plugin(sanitize_card=adds("c")),
        plugin(sanitize_card=lambda card: None),
        plugin(sanitize_card=adds("a")),
    )
    end: Card | Rejected = await hooks.fold(hookspecs.sanitize_card, Card(id="x", text=""))
    assert isinstance(end, Card)
    assert end.text == "ac"


async def test_a_result_of_another_allowed_type_ends_a_fold() -> None:
    called: list[str] = []
    hooks = hooks_of(
        plugin(sanitize_card=lambda card: called.append("never")),
        plugin(sanitize_card=lambda card: Rejected(reason="it smells")),
    )
    end: Card | Rejected = await hooks.fold(hookspecs.sanitize_card, Card(id="x", text=""))
    assert end == Rejected(reason="it smells")
    assert called == []


async def test_fold_of_nobody_returns_the_argument() -> None:
    card = Card(id="x", text="")
    end: Card | Rejected = await hooks_of().fold(hookspecs.sanitize_card, card)
    assert end is card


async def test_each_by_plugin_says_who_answered_and_who_failed() -> None:
    def broken(turn: Any) -> Any:
        raise ValueError("no index")

    hooks = hooks_of(
        plugin(select_capabilities=lambda: [Selection(id="a", score=1.0)]),
        plugin(select_capabilities=broken),
        plugin(select_capabilities=lambda: None),
    )
    answers = await hooks.each_by_plugin(hookspecs.select_capabilities, TURN, ANY)
    assert [answer.plugin for answer in answers] == ["p1", "p0"]
    assert answers[0].value is None
    assert answers[0].failure is not None
    assert answers[0].failure.message == "ValueError: no index"
    assert answers[1].value == [Selection(id="a", score=1.0)]


async def test_run_one_runs_one_implementation_under_the_contract() -> None:
    hooks = hooks_of(plugin(before_turn=refuse("a")), plugin(before_turn=fails))
    broken, fine = hooks.implementations(hookspecs.before_turn)
    assert (fine.plugin, fine.hook) == ("p0", "before_turn")
    assert (await hooks.run_one(fine, TURN)).code == "a"
    with pytest.raises(HookError, match="before_turn of plugin 'p1'"):
        await hooks.run_one(broken, TURN)


async def test_run_one_skips_a_failure_where_the_hook_is_not_required() -> None:
    log = Log()
    hooks = hooks_of(plugin(tag_turn=fails), log=log)
    assert await hooks.run_one(hooks.implementations(hookspecs.tag_turn)[0], TURN) is None
    assert [line["plugin"] for line in log.lines] == ["p0"]


async def test_guard_limits_and_attributes_a_later_step_of_an_implementation() -> None:
    hooks = hooks_of(plugin(filter_stream=lambda: None), limit=0.02)
    (implementation,) = hooks.implementations(hookspecs.filter_stream)

    async def two() -> int:
        await asyncio.sleep(0)
        return 2

    assert await hooks.guard(implementation, two()) == 2
    with pytest.raises(StopAsyncIteration):
        await hooks.guard(
            implementation, _Awaitable(StopAsyncIteration()), passing=(StopAsyncIteration,)
        )
    with pytest.raises(HookError, match=r"filter_stream of plugin 'p0' failed: suspended"):
        await hooks.guard(implementation, asyncio.Event().wait())


class _Awaitable:
    """Raises when it is awaited, without being a coroutine."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __await__(self) -> Any:
        raise self._error
        yield


def test_implemented_says_whether_anybody_implements_a_hook() -> None:
    hooks = hooks_of(plugin(before_turn=fails))
    assert hooks.implemented(hookspecs.before_turn)
    assert not hooks.implemented(hookspecs.tag_turn)


async def test_a_function_that_is_no_hook_is_named() -> None:
    def before_lunch(turn: Any) -> None: ...

    with pytest.raises(LookupError, match="'before_lunch' is no hook"):
        await hooks_of().each(before_lunch, TURN)


async def test_plugins_that_come_later_are_called_after_recompute() -> None:
    manager = manager_of()
    hooks = Hooks(manager, log=Log())
    manager.register(plugin(before_turn=refuse("new")), "new")
    assert not hooks.implemented(hookspecs.before_turn)
    hooks.recompute()
    assert [one.code for one in await hooks.each(hookspecs.before_turn, TURN)] == ["new"]


async def test_an_awaitable_that_a_plain_function_returns_is_awaited() -> None:
    async def late(turn: Any) -> Refusal:
        return Refusal(code="late", message="")

    hooks = hooks_of(
        plugin(before_turn=lambda turn: asyncio.ensure_future(late(turn))),
        plugin(before_turn=lambda turn: late(turn)),
    )
    assert [one.code for one in await hooks.each(hookspecs.before_turn, TURN)] == ["late"] * 2


# -- failures ----------------------------------------------------------------------------


async def test_a_required_failure_raises_from_its_cause_and_stops_the_rest() -> None:
    called: list[str] = []
    hooks = hooks_of(
        plugin(before_turn=lambda turn: called.append("never")), plugin(before_turn=fails)
    )
    with pytest.raises(HookError) as caught:
        await hooks.each(hookspecs.before_turn, TURN)
    error = caught.value
    assert (error.hook, error.plugin) == ("before_turn", "p1")
    assert error.reason == "ValueError: no such table"
    assert isinstance(error.__cause__, ValueError)
    assert called == []


async def test_a_failure_that_is_not_required_is_skipped_and_said() -> None:
    log = Log()
    hooks = hooks_of(plugin(tag_turn=lambda turn: {"x"}), plugin(tag_turn=fails), log=log)
    assert await hooks.each(hookspecs.tag_turn, TURN) == [{"x"}]
    (line,) = log.lines
    assert (line["level"], line["hook"], line["plugin"]) == ("warning", "tag_turn", "p1")
    assert (line["kind"], line["reason"]) == ("raised", "ValueError: no such table")


async def test_settling_hooks_run_all_and_raise_the_first_failure_noting_the_others() -> None:
    called: list[str] = []

    def breaks(turn: Any, call: Any) -> None:
        raise KeyError(call)

    hooks = hooks_of(
        plugin(tool_decided=breaks),
        plugin(tool_decided=lambda turn: called.append("middle")),
        plugin(tool_decided=breaks),
    )
    with pytest.raises(HookError) as caught:
        await hooks.notify(hookspecs.tool_decided, TURN, ANY, ANY)
    assert caught.value.plugin == "p2"
    assert called == ["middle"]
    assert len(caught.value.__notes__) == 1
    assert "'p0'" in caught.value.__notes__[0]


async def test_hook_failed_hears_of_required_and_of_skipped_failures() -> None:
    heard: list[HookFailure] = []
    hooks = hooks_of(
        plugin(before_turn=fails, tag_turn=fails),
        plugin(hook_failed=lambda failure: heard.append(failure)),
    )
    await hooks.each(hookspecs.tag_turn, TURN)
    with pytest.raises(HookError):
        await hooks.each(hookspecs.before_turn, TURN)
    await hooks.close()
    assert [(one.hook, one.required) for one in heard] == [
        ("tag_turn", False),
        ("before_turn", True),
    ]
    assert all(one.plugin == "p0" and one.kind == "raised" for one in heard)


async def test_hook_failed_does_not_hold_up_whoever_failed() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slow(failure: Any) -> None:
        entered.set()
        await leave.wait()

    hooks = hooks_of(plugin(tag_turn=fails), plugin(hook_failed=slow))
    assert await hooks.each(hookspecs.tag_turn, TURN) == []
    await entered.wait()
    assert await hooks.each(hookspecs.tag_turn, TURN) == []
    leave.set()
    await hooks.close()


async def test_a_failing_hook_failed_is_logged_and_never_told() -> None:
    log = Log()
    heard: list[str] = []

    def breaks(failure: HookFailure) -> None:
        heard.append(failure.hook)
        raise ValueError("broken, too")

    hooks = hooks_of(plugin(tag_turn=fails), plugin(hook_failed=breaks), log=log)
    await hooks.each(hookspecs.tag_turn, TURN)
    await hooks.close()
    assert heard == ["tag_turn"]
    assert [line["hook"] for line in log.lines] == ["tag_turn", "hook_failed"]


async def test_failures_beyond_the_queue_are_dropped_not_kept() -> None:
    heard: list[HookFailure] = []
    hooks = hooks_of(
        plugin(tag_turn=fails), plugin(hook_failed=lambda failure: heard.append(failure))
    )
    for _ in range(300):
        await hooks.each(hookspecs.tag_turn, TURN)
    await hooks.close()
    assert len(heard) == 256


async def test_closing_does_not_wait_long_for_a_slow_hook_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.core.hooks.caller.CLOSE_SECONDS", SHORT)
    heard: list[str] = []

    async def hangs(failure: Any) -> None:
        heard.append("heard")
        await forever()

    log = Log()
    hooks = hooks_of(plugin(tag_turn=fails), plugin(hook_failed=hangs), log=log)
    for _ in range(3):
        await hooks.each(hookspecs.tag_turn, TURN)
    await hooks.close()
    assert heard == ["heard"]
    assert log.lines[-1]["untold"] == 2
    assert len(asyncio.all_tasks()) == 1


async def test_a_log_that_cannot_be_written_does_not_end_the_call() -> None:
    class Broken(Log):
        def warning(self, event: str, **fields: Any) -> None:
            raise BrokenPipeError

    hooks = hooks_of(plugin(tag_turn=fails), log=Broken())
    assert await hooks.each(hookspecs.tag_turn, TURN) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_what_would_stop_the_process_is_a_failure_of_the_plugin(
    error: type[BaseException], suspends: bool, where: str
) -> None:
    async def waits(turn: Any) -> None:
        await asyncio.sleep(0)
        raise error

    def interrupted(turn: Any) -> None:
        raise error

    function: Any = waits if suspends else interrupted
    if where == "thread" and not suspends:
        function = blocking(function)
    hooks = hooks_of(plugin(before_turn=function))
    with pytest.raises(HookError, match=error.__name__):
        await hooks.each(hookspecs.before_turn, TURN)


async def test_stop_iteration_from_an_implementation_is_a_failure_like_any_other() -> None:
    def stops(turn: Any) -> Any:
        raise StopIteration(Refusal(code="forged", message=""))

    hooks = hooks_of(plugin(before_turn=stops))
    with pytest.raises(HookError, match="StopIteration"):
        await hooks.each(hookspecs.before_turn, TURN)


async def test_a_long_message_is_cut() -> None:
    def talks(turn: Any) -> None:
        raise ValueError("x" * 10_000)

    log = Log()
    await hooks_of(plugin(tag_turn=talks), log=log).each(hookspecs.tag_turn, TURN)
    assert len(log.lines[0]["reason"]) <= 300


# -- the check of results ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "value", "told"),
    [
        (hookspecs.before_turn, "no", "of type str, expected Refusal or TurnAnswer or None"),
        (hookspecs.before_turn, True, "of type bool, expected Refusal or TurnAnswer or None"),
        (hookspecs.before_turn, Verdict.deny("x"), "of type Verdict, expected Refusal"),
        (hookspecs.withhold_capabilities, "abc", "of type str, expected Collection of str"),
        (hookspecs.withhold_capabilities, [1], "list whose item 0 is of type int, expected str"),
        (
            hookspecs.list_operations,
            ({},),
            "whose item 0 is of type dict, expected Operation",
        ),
        (hookspecs.list_providers, [object()], "item 0 is of type object, expected Provider"),
        (hookspecs.list_operations, iter(()), "of type tuple_iterator, expected Sequence of"),
        (hookspecs.lifespan, object(), "of type object, expected AbstractAsyncContextManager"),
        (hookspecs.add_routes, 3, "of type int, expected nothing or None"),
        (hookspecs.sanitize_card, "text", "of type str, expected Card or Rejected or None"),
        (hookspecs.filter_stream, [1], "of type list, expected AsyncIterator or None"),
    ],
)
async def test_junk_is_refused_with_what_was_found_and_what_was_expected(
    spec: Any, value: Any, told: str
) -> None:
    hooks = hooks_of(plugin(**{spec.__name__: lambda: value}))
    (implementation,) = hooks.implementations(spec)
    with pytest.raises(HookResultError) as caught:
        await hooks.run_one(implementation, TURN, ANY)
    assert told in str(caught.value)
    assert spec.__name__ in str(caught.value)
    assert "'p0'" in str(caught.value)


class _Unreadable(list[str]):
    def __iter__(self) -> Any:
        raise SystemExit("while it is read")


class _Proxy:
    """Stands for an object that is not there, as lazy proxies do."""

    @property
    def __class__(self) -> Any:
        raise LookupError("nothing is bound")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


async def _late_proxy(turn: Any) -> Any:
    await asyncio.sleep(0)
    return _Proxy()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("spec", "function", "told"),
    [
        (
            hookspecs.tag_turn,
            lambda: _Unreadable(["a"]),
            "cannot be read: SystemExit: while it is read",
        ),
        (hookspecs.judge_turn, lambda: _Proxy(), "LookupError: nothing is bound"),
    ],
)
async def test_a_result_that_breaks_when_it_is_looked_at_is_a_failure(
    spec: Any, function: Any, told: str, traced: bool
) -> None:
    log = Log()
    hooks = hooks_of(plugin(**{spec.__name__: hookimpl(function)}), log=log)
    hooks.spans = (lambda span: None) if traced else None
    assert await hooks.each(spec, TURN) == []
    assert await hooks.first(spec, TURN) is None
    assert [told in line["reason"] for line in log.lines] == [True, True]


async def test_an_exception_that_cannot_be_printed_is_a_failure_like_any_other() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    def breaks(turn: Any) -> None:
        raise Mute

    log = Log()
    assert await hooks_of(plugin(tag_turn=breaks), log=log).each(hookspecs.tag_turn, TURN) == []
    assert log.lines[0]["reason"] == "Mute: (its message cannot be read)"


async def test_an_awaitable_that_comes_to_nothing_is_no_result() -> None:
    async def nothing() -> None:
        await asyncio.sleep(0)

    hooks = hooks_of(plugin(before_turn=lambda: asyncio.ensure_future(nothing())))
    assert await hooks.each(hookspecs.before_turn, TURN) == []


async def test_an_awaitable_that_comes_to_junk_is_junk() -> None:
    async def junk() -> int:
        return 3

    hooks = hooks_of(plugin(before_turn=lambda: asyncio.ensure_future(junk())))
    with pytest.raises(HookResultError, match="of type int, expected Refusal"):
        await hooks.each(hookspecs.before_turn, TURN)


async def test_an_implementation_of_other_hooks_is_not_run() -> None:
    (foreign,) = hooks_of(plugin(tag_turn=fails)).implementations(hookspecs.tag_turn)
    foreign.chain.name = "elsewhere"
    with pytest.raises(LookupError, match="'p0'"):
        await hooks_of().run_one(foreign, TURN)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (hookspecs.tag_turn, ["a"]),
        (hookspecs.tag_turn, frozenset({"a"})),
        (hookspecs.tag_turn, ()),
        (hookspecs.tag_turn, {"a": 1}.keys()),
        (hookspecs.select_capabilities, [Selection(id="a", score=0.5)]),
        (hookspecs.select_capabilities, ()),
    ],
)
async def test_any_collection_of_the_right_items_is_a_right_result(spec: Any, value: Any) -> None:
    hooks = hooks_of(plugin(**{spec.__name__: lambda: value}))
    (implementation,) = hooks.implementations(spec)
    assert await hooks.run_one(implementation, TURN, ANY) is value


async def test_a_filter_may_be_anything_that_iterates_asynchronously() -> None:
    async def stream() -> Any:
        yield 1

    hooks = hooks_of(plugin(filter_stream=lambda events: stream()))
    assert hasattr(await hooks.fold(hookspecs.filter_stream, TURN, stream()), "__anext__")


class _Unannotated:
    @staticmethod
    @hookspec("each")
    def anything(turn):  # type: ignore[no-untyped-def]
        """Return anything."""


async def test_a_hook_without_a_return_annotation_takes_any_result() -> None:
    hooks = hooks_of(plugin(anything=lambda turn: turn), specs=_Unannotated)
    assert await hooks.each(_Unannotated.anything, 3) == [3]


class _Unchecked:
    @staticmethod
    @hookspec("each")
    def chosen(turn: int) -> Literal["a", "b"]:
        """Return something that is no class."""
        return "a"


def test_a_return_annotation_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(StartError, match="use classes"):
        hooks_of(specs=_Unchecked)


class _Annotated:
    @staticmethod
    @hookspec("each", required=True)
    def unknown(value: int) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        """Return something that nobody knows."""


def test_a_specification_that_names_an_unknown_type_is_named() -> None:
    with pytest.raises(StartError, match="hook unknown: the annotation of 'return'"):
        hooks_of(specs=_Annotated)


class _Defaulted:
    @staticmethod
    @hookspec("each")
    def wishful(turn: int, depth: int = 3) -> None:
        """Have a default."""


def test_a_specification_with_a_default_is_refused() -> None:
    with pytest.raises(StartError, match="hook wishful: the specification gives 'depth' a default"):
        hooks_of(specs=_Defaulted)


# -- contracts that an operator tightens -------------------------------------------------


async def test_required_makes_a_failure_raise_where_it_would_be_skipped() -> None:
    manager = manager_of(plugin(tag_turn=fails))
    hooks = Hooks(manager, {"tag_turn": HookSettings(required=True)}, log=Log())
    assert hooks.contract(hookspecs.tag_turn).required
    with pytest.raises(HookError):
        await hooks.each(hookspecs.tag_turn, TURN)


def test_loosening_a_contract_and_unknown_hooks_are_refused_together() -> None:
    overrides = {
        "before_turn": HookSettings(limit=5.5),
        "before_tun": HookSettings(required=True),
        "after_turn": HookSettings(limit=29.0),
    }
    with pytest.raises(ConfigError) as caught:
        Hooks(manager_of(), overrides)
    first, second = caught.value.problems
    assert (first.key, first.found) == ("hooks.before_turn.limit", "5.5")
    assert "at most 5" in first.expected
    assert (second.key, second.nearest) == ("hooks.before_tun", "hooks.before_turn")


# -- spans -------------------------------------------------------------------------------


async def test_spans_say_who_ran_for_how_long_and_what_came_of_it() -> None:
    spans: list[HookSpan] = []
    hooks = hooks_of(
        plugin(tag_turn=lambda turn: None),
        plugin(tag_turn=fails),
        plugin(tag_turn=lambda turn: {"a", "b"}),
    )
    hooks.spans = spans.append
    assert await hooks.each(hookspecs.tag_turn, TURN) == [{"a", "b"}]
    assert [(span.plugin, span.outcome, span.failed) for span in spans] == [
        ("p2", "set of 2", False),
        ("p1", "ValueError: no such table", True),
        ("p0", "nothing", False),
    ]
    assert all(span.hook == "tag_turn" and span.turn == "turn_1" for span in spans)
    assert all(span.seconds >= 0 and span.at > 0 for span in spans)


async def test_a_span_says_what_a_result_says_of_itself() -> None:
    spans: list[HookSpan] = []
    hooks = hooks_of(
        plugin(before_turn=suspends), plugin(before_tool_call=lambda: Verdict.deny("no"))
    )
    hooks.spans = spans.append
    await hooks.each(hookspecs.before_turn, TURN)
    await hooks.each(hookspecs.before_tool_call, TURN, ANY)
    assert [span.outcome for span in spans] == ["Refusal late late", "Verdict DENY no"]


async def test_a_subscriber_that_fails_breaks_nothing() -> None:
    def breaks(span: HookSpan) -> None:
        raise ValueError("no room")

    log = Log()
    hooks = hooks_of(plugin(before_turn=refuse("a")), log=log)
    hooks.spans = breaks
    assert len(await hooks.each(hookspecs.before_turn, TURN)) == 1
    assert log.lines[0]["hook"] == "before_turn"


async def test_all_combinations_report_spans() -> None:
    spans: list[str] = []
    card = Card(id="x", text="")
    hooks = hooks_of(
        plugin(judge_turn=lambda: None, sanitize_card=lambda: None, after_turn=lambda: None)
    )
    hooks.spans = lambda span: spans.append(span.hook)
    await hooks.first(hookspecs.judge_turn, TURN)
    await hooks.fold(hookspecs.sanitize_card, card)
    await hooks.notify(hookspecs.after_turn, TURN, ANY)
    await hooks.each_by_plugin(hookspecs.after_turn, TURN, ANY)
    assert spans == ["judge_turn", "sanitize_card", "after_turn", "after_turn"]


# -- threads -----------------------------------------------------------------------------

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


async def test_blocking_implementations_run_on_threads_in_the_callers_context() -> None:
    seen: list[str] = []

    @blocking
    def reads(turn: Any) -> Any:
        seen.extend([threading.current_thread().name, VARIABLE.get()])
        return {"tag"}

    VARIABLE.set("the caller's")
    hooks = hooks_of(plugin(tag_turn=reads))
    assert await hooks.each(hookspecs.tag_turn, TURN) == [{"tag"}]
    assert seen[0].startswith("hookgate-p0")
    assert seen[1] == "the caller's"
    await hooks.close()


async def test_the_marker_for_blocking_stands_above_or_below() -> None:
    threads: list[bool] = []

    def note() -> None:
        threads.append(threading.current_thread() is threading.main_thread())

    above = blocking(hookimpl(lambda turn: note()))
    below = hookimpl(blocking(lambda turn: note()))
    hooks = hooks_of(plugin(tag_turn=above), plugin(tag_turn=below))
    await hooks.each(hookspecs.tag_turn, TURN)
    assert threads == [False, False]
    await hooks.close()


async def test_a_plugin_has_four_threads_and_never_takes_those_of_another() -> None:
    gate, running, most = threading.Event(), threading.Semaphore(0), []
    lock = threading.Lock()
    busy: list[int] = []

    @blocking
    def holds(turn: Any) -> None:
        with lock:
            busy.append(1)
            most.append(len(busy))
        running.release()
        gate.wait()
        with lock:
            busy.pop()

    @blocking
    def quick(turn: Any) -> Any:
        return {"quick"}

    hooks = hooks_of(plugin(before_turn=holds), plugin(tag_turn=quick))
    calls = [asyncio.ensure_future(hooks.each(hookspecs.before_turn, TURN)) for _ in range(6)]
    for _ in range(4):
        await asyncio.to_thread(running.acquire)
    assert await hooks.each(hookspecs.tag_turn, TURN) == [{"quick"}]
    gate.set()
    await asyncio.gather(*calls)
    assert max(most) == 4
    await hooks.close()


async def test_a_thread_that_is_late_is_said_to_go_on() -> None:
    gate = threading.Event()

    @blocking
    def stuck(turn: Any) -> None:
        gate.wait()

    hooks = hooks_of(plugin(before_turn=stuck), limit=0.02)
    with pytest.raises(HookError, match="its thread cannot be stopped"):
        await hooks.each(hookspecs.before_turn, TURN)
    gate.set()
    await hooks.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), "raised"),
        (StopIteration(), "raised"),
        (SystemExit(3), "exit"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
async def test_what_a_thread_raises_is_the_implementations_failure(
    error: BaseException, kind: str
) -> None:
    @blocking
    def breaks(turn: Any) -> None:
        raise error

    log = Log()
    hooks = hooks_of(plugin(tag_turn=breaks), log=log)
    assert await hooks.each(hookspecs.tag_turn, TURN) == []
    assert [line["kind"] for line in log.lines] == [kind]
    await hooks.close()

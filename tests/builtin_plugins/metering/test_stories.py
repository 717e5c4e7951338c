"""Budgets and limits through a whole gateway with a real store: the stories of its users."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.metering.support import rows_of
from tests.support.script import until

from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.ledger import Ledger
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import ProviderError, StartError, StoreUnavailableError
from hookgate.core.domain.events import Event
from hookgate.core.domain.models import (
    ModelRef,
    ModelRequest,
    Refusal,
    StopEvent,
    TextDelta,
    Usage,
)
from hookgate.core.domain.models import UsageEvent as Used
from hookgate.core.domain.turn import Address, Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.hookspecs import hookimpl
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, call, say
from hookgate.kit.tooling import tool
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host
    from hookgate.gateway import Gateway
    from hookgate.kit.testing.gateway import TurnedClock

    Started = Callable[..., AbstractAsyncContextManager[Gateway]]

DEAR = {"input": 10, "output": 10}
"""Dollars for a million tokens."""


def spending(tokens: int, *, output: int = 10) -> list[Any]:
    """Return an answer whose provider bills so many tokens in all."""
    usage = Usage(input_tokens=tokens - output, output_tokens=output)
    return [TextDelta("fine"), Used(usage), StopEvent("end")]


def metering(**section: Any) -> dict[str, Any]:
    """Return the settings of a gateway with this section."""
    return {"plugin": {"metering": section}}


def budget(**more: Any) -> dict[str, Any]:
    """Return the settings of a gateway with one budget, called `small`."""
    return metering(budgets={"small": more})


async def operate(gateway: Gateway, name: str, /, **params: Any) -> dict[str, Any]:
    """Call an operation as the owner."""
    operation = gateway.host.operations[name]
    invocation = Invocation(host=gateway.host, principal=Principal.owner())
    result = await operation.handler(invocation, operation.params.model_validate(params))
    return dict(result.model_dump(mode="json"))


def at(peer: str) -> Address:
    """Return where a person writes from."""
    return Address("cli", "local", peer)


async def test_call_that_would_exceed_the_budget_is_refused_before_the_wire(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(9_900)]
    async with gateway(**budget(scope="session", tokens=10_000)) as running:
        first = await running.chat("hello")
        second = await running.chat("and now?")
    assert first.ending == "done"
    assert second.ending == "refused"
    assert second.error is not None
    assert second.error.code == "budget_exceeded"
    assert "day:2026-03-01: 9,900 of 10,000 tokens; this call needs up to" in str(second.error)
    assert len(model.requests) == 1


async def test_a_provider_that_reports_no_input_turns_no_budget_off(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps[:] = [[TextDelta("fine"), Used(Usage()), StopEvent("end")]]
    async with gateway() as running:
        turn = await running.chat("hello")
        told = running.host.notices["usage of provider script"]
    assert turn.usage.total_input > 0
    assert "0 tokens of input" in told


async def test_daily_budget_holds_over_all_sessions_and_begins_anew_the_next_day(
    gateway: Started, model: ScriptedModel, clock: TurnedClock
) -> None:
    model.steps = [spending(60_000), spending(39_900), spending(100)]
    async with gateway(**budget(tokens=100_000)) as running:
        first = await running.chat("hello", address=at("ann"))
        second = await running.chat("hello", address=at("bob"))
        refused = await running.chat("hello", address=at("cleo"))
        clock.turn(days=1)
        again = await running.chat("hello", address=at("cleo"))
    assert (first.ending, second.ending) == ("done", "done")
    assert refused.ending == "refused"
    assert again.ending == "done"


@pytest.mark.parametrize(
    ("tokens", "step", "ending"),
    [
        (10**9, say("fine"), "done"),
        (10**9, [ProviderError("bad_request", "it will not do that")], "failed"),
        (1, say("fine"), "refused"),
    ],
)
async def test_whichever_way_a_turn_ends_its_rows_are_committed_before_its_client_hears_of_it(
    gateway: Started, model: ScriptedModel, tokens: int, step: Any, ending: str
) -> None:
    model.steps = [step]
    found: list[int] = []
    async with gateway(**budget(tokens=tokens)) as running:

        def sink(event: Event) -> None:
            if event.type != "done":
                return
            # As a gateway would find it that starts once this one is killed here.
            path = running.host[STORE].place
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                query = "SELECT count(*) FROM metering_call WHERE turn = ?"
                found.append(connection.execute(query, (event.turn,)).fetchone()[0])

        turns = [await running.chat("hello", sink=sink) for _ in range(2)]
    # The first row of a start is written in another way.
    assert ([turn.ending for turn in turns], found) == ([ending] * 2, [1, 1])


async def test_what_was_used_is_known_after_a_restart(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(9_900)]
    limit = budget(scope="session", tokens=10_000)
    async with gateway(**limit) as running:
        await running.chat("hello")
    async with gateway(**limit) as running:
        second = await running.chat("and now?")
    assert second.ending == "refused"
    assert "9,900 of 10,000" in str(second.error)


async def test_budget_in_money_counts_by_the_prices_of_the_settings(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(9_900)]
    section = metering(
        budgets={"small": {"usd": "0.10", "window": "month"}}, prices={"script/*": DEAR}
    )
    async with gateway(**section) as running:
        await running.chat("hello")
        second = await running.chat("and now?")
    assert second.error is not None
    assert "month:2026-03: $0.099 of $0.1; this call needs up to $0.0" in str(second.error)


async def test_unknown_model_counts_as_the_configured_worst_case(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(10_000, output=0)]
    section = metering(budgets={"small": {"usd": 1}}, unknown={"input": 100, "output": 100})
    async with gateway(**section) as running:
        first = await running.chat("hello")
        second = await running.chat("and now?")
    assert (first.ending, second.ending) == ("done", "refused")


async def test_budget_falls_back_to_the_cheapest_model_of_the_plan(
    tmp_path: Path, model: ScriptedModel
) -> None:
    model.steps = [spending(9_000), say("cheap")]
    section = metering(
        budgets={"small": {"usd": "0.10", "over": "fallback"}},
        prices={"script/dear": DEAR, "script/cheap": {"input": 0, "output": 0}},
    )
    agents = {"main": {"model": "script/dear", "fallback": ["script/cheap"]}}
    events: list[Any] = []
    async with started(home=tmp_path, model=model, agents=agents, **section) as running:
        await running.chat("hello")
        second = await running.chat("and now?", sink=events.append)
    assert second.ending == "done"
    assert [str(request.model) for request in model.requests] == ["script/dear", "script/cheap"]


async def test_operator_is_asked_for_more_and_raises_the_counter(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(9_900)]
    async with gateway(**budget(tokens=10_000, over="ask")) as running:
        await running.chat("hello")
        refused = await running.chat("and now?")
        key = "small.tokens/global:*/day:2026-03-01"
        assert f"budget {key}" in running.host.status()["notices"]
        made = await operate(running, "budgets.raise", key=key, more=50_000)
        assert f"budget {key}" not in running.host.status()["notices"]
        again = await running.chat("and now?")
    assert refused.error is not None
    assert "an operator has been asked" in refused.error.action
    assert made["done"] == f"{key} is raised by 50,000 tokens"
    assert again.ending == "done"


async def test_operators_are_warned_once_when_a_budget_is_nearly_used_up(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(85_000), spending(100)]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello")
        notices = running.host.status()["notices"]
    told = [text for part, text in notices.items() if part.startswith("budget small")]
    assert len(told) == 1
    assert "85,000 of 100,000 tokens" in told[0]


async def test_rate_of_requests_is_limited_and_says_when_to_come_back(
    gateway: Started, model: ScriptedModel, clock: TurnedClock
) -> None:
    section = metering(limits={"calm": {"scope": "session", "requests": 2}})
    async with gateway(**section) as running:
        turns = [await running.chat("hello") for _ in range(3)]
        clock.turn(seconds=60)
        later = await running.chat("hello")
    assert [turn.ending for turn in turns] == ["done", "done", "refused"]
    assert turns[2].error is not None
    assert turns[2].error.code == "rate_limited"
    assert turns[2].error.refusal.retry_after == 60
    assert later.ending == "done"


async def test_calls_side_by_side_are_limited_and_a_place_is_free_when_one_has_ended(
    gateway: Started, model: ScriptedModel
) -> None:
    leave = asyncio.Event()
    model.steps = [[leave.wait, *say("slow")], say("fast")]
    async with gateway(**metering(limits={"one": {"parallel": 1}})) as running:
        slow = asyncio.create_task(running.chat("hello", address=at("ann")))
        await until(lambda: model.requests)
        refused = await running.chat("hello", address=at("bob"))
        leave.set()
        await slow
        later = await running.chat("hello", address=at("bob"))
    assert refused.error is not None
    assert "now: 1 of 1 at one time; this call needs up to 1" in str(refused.error)
    assert refused.error.data["retry_after"] > 0  # so it is a 429, and no 403
    assert later.ending == "done"


async def test_cancelled_call_is_charged_what_was_reserved(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [[TextDelta("I "), asyncio.Event().wait]]
    async with gateway(**budget(tokens=100_000)) as running:
        task = asyncio.create_task(running.chat("hello"))
        await until(lambda: model.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        shown = await operate(running, "budgets.show")
    (counter,) = shown["budgets"][0]["counters"]
    most = model.requests[0].max_output_tokens
    assert int(counter["used"].replace(",", "")) >= most
    assert counter["held"] == "0"


async def test_call_that_another_plugin_refuses_holds_and_costs_nothing(
    gateway: Started, model: ScriptedModel
) -> None:
    class Stop:
        @hookimpl
        def before_model_call(self) -> Refusal:
            return Refusal(code="closed", message="closed today")

    async with gateway(Stop, **budget(tokens=100_000)) as running:
        turn = await running.chat("hello")
        shown = await operate(running, "budgets.show")
    assert turn.ending == "refused"
    (counter,) = shown["budgets"][0]["counters"]
    assert (counter["used"], counter["held"]) == ("0", "0")


async def test_session_that_burns_far_more_than_ever_is_paused_until_it_is_resumed(
    gateway: Started, model: ScriptedModel
) -> None:
    def nothing() -> str:
        """Do nothing."""
        return "done"

    burning = [*call("nothing")]
    burning[1] = Used(Usage(input_tokens=60_000, output_tokens=10))
    model.steps = [*[spending(1_000) for _ in range(20)], burning, say("more"), say("fine")]
    tools = [tool(nothing, flags=Flags.none())]
    async with gateway(tools=tools, plugin={"policy": {"profile": "open"}}) as running:
        for _ in range(20):
            await running.chat("hello")
        burnt = await running.chat("now burn")
        after = await running.chat("hello")
        session = str(burnt.session)
        assert session in (await operate(running, "budgets.show"))["paused"]
        assert any(session in part for part in running.host.status()["notices"])
        await operate(running, "budgets.resume", session=session)
        assert not any(session in part for part in running.host.status()["notices"])
        resumed = await running.chat("hello")
    assert burnt.error is not None
    assert burnt.error.code == after.error.code == "session_paused"  # type: ignore[union-attr]
    assert "this turn has used 60,010 tokens" in str(burnt.error)
    assert resumed.ending == "done"


async def test_what_a_plugin_asks_a_model_for_counts_for_that_plugin(
    gateway: Started, model: ScriptedModel
) -> None:
    class Asks:
        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            self.host = host
            yield

        @hookimpl
        async def before_turn(self, turn: Turn) -> None:
            request = ModelRequest(model=ModelRef("script", "test"), cause="memory.extract")
            async for _ in self.host.call_model(turn, request):
                pass

    model.steps = [spending(500), spending(70_000)]
    async with gateway(Asks, **budget(scope="plugin", of="memory", tokens=10_000)) as running:
        await running.chat("hello")
        shown = await operate(running, "budgets.show")
    (counter,) = shown["budgets"][0]["counters"]
    assert (counter["key"], counter["used"]) == (
        "small.tokens/plugin:memory/day:2026-03-01",
        "500",
    )


async def test_budget_is_set_and_removed_while_the_gateway_runs(
    gateway: Started, model: ScriptedModel
) -> None:
    model.steps = [spending(900)]
    async with gateway() as running:
        await operate(running, "budgets.set", name="tight", tokens=10)
        refused = await running.chat("hello")
        shown = await operate(running, "budgets.show", name="tight")
        await operate(running, "budgets.remove", name="tight")
        let = await running.chat("hello")
    assert (refused.ending, let.ending) == ("refused", "done")
    assert shown["budgets"][0]["source"] == "operator"


async def test_budget_of_a_day_without_a_store_refuses_unless_it_may_count_in_memory(
    gateway: Started,
) -> None:
    section = {"tokens": 100_000}
    async with gateway(disabled=["storage"], **budget(**section)) as running:
        refused = await running.chat("hello")
    counting = metering(budgets={"small": section}, without_store="count")
    async with gateway(disabled=["storage"], **counting) as running:
        let = await running.chat("hello")
    assert refused.error is not None
    assert refused.error.code == "budget_unavailable"
    assert let.ending == "done"


async def test_call_is_settled_in_the_window_in_which_it_was_reserved(
    gateway: Started, model: ScriptedModel, clock: TurnedClock
) -> None:
    model.steps = [[lambda: clock.turn(days=1), *spending(7_000)]]
    async with gateway(**budget(tokens=100_000)) as running:
        await running.chat("hello")
        clock.turn(days=-1)
        (yesterday,) = (await operate(running, "budgets.show"))["budgets"][0]["counters"]
        clock.turn(days=1)
        today = (await operate(running, "budgets.show"))["budgets"][0]["counters"]
        (row,) = await rows_of(running.host[STORE])
    assert (yesterday["used"], today) == ("7,000", [])
    assert (row["day"], row["at"][:10]) == ("2026-03-01", "2026-03-02")
    assert json.loads(row["windows"]) == {"small.tokens/global:*/day:2026-03-01": 7_000}


async def test_no_model_is_asked_while_the_ledger_cannot_be_written(
    gateway: Started, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the disk is full")

    async with gateway() as running:
        first = await running.chat("hello")
        with monkeypatch.context() as patch:
            lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            lost.set_exception(StoreUnavailableError("the disk is full"))
            patch.setattr(running.host[STORE], "insert_soon", lambda *_: lost)
            patch.setattr(Ledger, "_insist", gone)
            await running.chat("this one is not written")
            await until(lambda: "metering.ledger" in running.host.degraded)
            refused = await running.chat("hello", address=at("ann"))
        await until(lambda: "metering.ledger" not in running.host.degraded)
        again = await running.chat("hello")
    assert (first.ending, again.ending) == ("done", "done")
    assert refused.error is not None
    assert refused.error.code == "ledger_unavailable"


async def test_a_cut_call_is_charged_what_was_reserved_whatever_is_learned_meanwhile(
    gateway: Started, model: ScriptedModel
) -> None:
    """A model's bills may say while a call runs that its input is worth less, or more."""
    text = "Where do the wild geese go in the winter, and who tells them the way? " * 20
    bill = [TextDelta("fine"), Used(Usage(input_tokens=400, output_tokens=10)), StopEvent("end")]
    learned = asyncio.Event()
    open_calls = "SELECT held FROM metering_open"

    def answer(request: ModelRequest) -> list[Any]:
        if "first" not in str(request.messages):
            return bill
        return [TextDelta("x"), learned.wait, ConnectionError("gone")]

    model.steps = [answer]
    async with gateway(**budget(tokens=1_000_000)) as running:
        store = running.host[STORE]
        cut = asyncio.create_task(running.chat(f"first {text}", address=at("ada")))
        await until(lambda: len(model.requests) == 1)
        (held,) = await store.read(lambda one: one.exec_driver_sql(open_calls).scalars().all())
        for number in range(6):
            await running.chat(text, address=at(f"peer{number}"))
        learned.set()
        await cut
        rows = await rows_of(store)
    (row,) = (row for row in rows if row["status"] == "cut")
    assert row["input_tokens"] + row["output_tokens"] == sum(json.loads(held).values())


async def test_gateway_that_is_cut_off_amid_a_call_leaves_a_row_of_it_and_charges_its_bound(
    gateway: Started, model: ScriptedModel, tmp_path: Path
) -> None:
    """As another one finds the store of a gateway that was killed while the model was asked."""
    found: list[dict[str, Any]] = []
    copy = tmp_path / "copy"

    def killed() -> None:
        source = Path(running.host[STORE].place)
        copy.mkdir()
        for path in source.parent.glob(f"{source.name}*"):
            shutil.copy(path, copy)

    model.steps = [spending(1_000), [killed, *spending(2_000)], say("fine")]
    limits = budget(tokens=100_000, scope="agent")
    async with gateway(**limits) as running:
        first = await running.chat("hello")
        second = await running.chat("and now?")
    home = tmp_path / "again"
    (home / "data").mkdir(parents=True)
    place = Path(running.host[STORE].place).relative_to(running.host.settings.home)
    for path in copy.iterdir():
        shutil.copy(path, home / place.parent)
    async with started(home=home, model=model, **limits) as again:
        found = await rows_of(again.host[STORE])
        (counter,) = (await operate(again, "budgets.show"))["budgets"][0]["counters"]
        usage = await operate(again, "usage", by="agent")
    assert [row["turn"] for row in found] == [first.id, second.id]
    lost = found[1]
    assert (lost["status"], lost["sent"], lost["reported"]) == ("lost", True, False)
    request = model.requests[1]
    assert (lost["id"], lost["output_tokens"]) == (request.call_id, request.max_output_tokens)
    bound = lost["input_tokens"] + lost["output_tokens"]
    assert int(counter["used"].replace(",", "")) == 1_000 + bound
    assert counter["leased"] == "0"
    assert (usage["whole"]["calls"], usage["whole"]["failed"]) == (2, 1)


async def test_a_disk_that_is_full_at_the_start_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: Budgets) -> None:
        raise StoreUnavailableError("database or disk is full (SQLITE_FULL)")

    monkeypatch.setattr(Budgets, "open", full)
    with pytest.raises(StartError) as told:
        async with started(home=tmp_path, model=ScriptedModel(), only=["metering", "storage"]):
            pass
    text = str(told.value)
    assert "what calls cost cannot be written: database or disk is full" in text
    assert "Make room" in text
    assert "lifespan" not in text

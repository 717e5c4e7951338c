"""``usage``, as operators ask for it and as they see it."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from rich.console import Console
from tests.builtin_plugins.metering.support import in_memory, made_call
from tests.builtin_plugins.turns import make_host

from hookgate.builtin_plugins.metering import views
from hookgate.builtin_plugins.metering.calls import CALL, INSTRUMENTS, REFUSED, call_fields
from hookgate.builtin_plugins.metering.ledger import Ledger, Reports
from hookgate.builtin_plugins.metering.operations.usage import CallOperations, UsageOperations
from hookgate.builtin_plugins.metering.operations.usage_models import UsageParams
from hookgate.builtin_plugins.telemetry.records import Instruments
from hookgate.core.domain.events import MetricRecord
from hookgate.core.domain.turn import Claim, Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.kit.functions.operations import operations_of
from hookgate.kit.rendering import print_shown

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.calls import LedgerRow


async def asked(
    *calls: LedgerRow, principal: Principal | None = None, **params: Any
) -> dict[str, Any]:
    ledger = Ledger(in_memory())
    for call in calls:
        ledger.hand_over(call)
    operations = UsageOperations()
    operations.reports = Reports(ledger)
    (operation,) = operations_of(operations)
    invocation = Invocation(host=make_host(), principal=principal or Principal.owner())
    result = await operation.handler(invocation, UsageParams(**params))
    return dict(result.model_dump(mode="json"))


def shown(found: dict[str, Any], width: int) -> str:
    out = io.StringIO()
    print_shown(Console(file=out, width=width), views.usage(found, width=width))
    return out.getvalue()


async def test_money_is_exact_and_tokens_are_totals_with_their_parts() -> None:
    call = made_call(
        cost=10**12 + 1,
        saved=-1,
        input_tokens=1,
        cache_read_tokens=2,
        cache_write_tokens=4,
        cache_write_hour_tokens=8,
        audio_input_tokens=16,
        image_input_tokens=32,
        output_tokens=64,
        reasoning_tokens=128,
    )
    found = await asked(call, call._replace(id="again"), by="model")
    (group,) = found["groups"]
    assert group["of"] == {"model": "acme/large"}
    assert (group["cost_usd"], group["saved_usd"]) == ("2.000000000002", "-0.000000000002")
    assert (group["input_tokens"], group["output_tokens"]) == (2 * 63, 2 * 192)
    assert (group["cache_write_tokens"], group["cache_write_hour_tokens"]) == (24, 16)


async def test_days_and_months_are_limits_on_both_sides() -> None:
    days = ["2026-10-31", "2026-11-01", "2026-11-30", "2026-12-01"]
    calls = [made_call(day=day) for day in days]
    november = await asked(*calls, since="2026-11", until="2026-11")
    assert [group["of"]["day"] for group in november["groups"]] == days[1:3]
    later = await asked(*calls, since="2026-11-30", by="month")
    assert [group["of"]["month"] for group in later["groups"]] == ["2026-11", "2026-12"]
    # Of more days than are wanted the last ones are told; the sums are whole.
    last = await asked(*calls, limit=1)
    assert [group["of"]["day"] for group in last["groups"]] == ["2026-12-01"]
    assert (last["more"], last["whole"]["calls"], len(last["days"])) == (3, 4, 4)


async def test_the_dearest_come_first_and_others_are_left_out() -> None:
    calls = [made_call(agent=name, cost=cost) for name, cost in (("a", 1), ("b", 3), ("c", 2))]
    found = await asked(*calls, by="agent", limit=2)
    assert [group["of"]["agent"] for group in found["groups"]] == ["b", "c"]
    assert found["more"] == 1


async def test_calls_without_a_key_or_a_tool_can_be_asked_for() -> None:
    calls = [made_call(key="ci", tool="research"), made_call(), made_call()]
    assert (await asked(*calls, key=""))["whole"]["calls"] == 2
    assert (await asked(*calls, tool="research", by=""))["whole"]["calls"] == 1


async def test_who_is_bound_to_some_addresses_gets_their_sums() -> None:
    mine, other = (
        made_call(channel="slack", account="w", session=f"main:slack:w:{peer}")
        for peer in ("me", "you")
    )
    bound = Principal(id="token:me", bindings=(Claim("slack", "w", "me"),))
    found = await asked(mine, other, by="session", principal=bound)
    assert [group["of"]["session"] for group in found["groups"]] == ["main:slack:w:me"]
    assert found["whole"]["calls"] == 1


async def test_the_calls_of_a_turn_say_what_each_has_cost() -> None:
    session = "main:slack:w:me"
    ledger = Ledger(in_memory())
    for turn, cost in (("turn_1", 10**12), ("turn_2", 5 * 10**11), ("turn_2", None)):
        ledger.hand_over(made_call(session=session, turn=turn, cost=cost))
    usage = UsageOperations()
    usage.reports = Reports(ledger)
    (operation,) = operations_of(CallOperations(usage))

    async def costs(principal: Principal, **params: Any) -> list[str | None]:
        invocation = Invocation(host=make_host(), principal=principal)
        found = await operation.handler(invocation, operation.params(session=session, **params))
        return [row.cost_usd for row in found.calls]

    owner = Principal.owner()
    assert sorted(map(str, await costs(owner))) == ["0.500000000000", "1.000000000000", "None"]
    assert sorted(map(str, await costs(owner, turn="turn_2"))) == ["0.500000000000", "None"]
    assert len(await costs(owner, limit=1)) == 1
    other = Principal(id="token:you", bindings=(Claim("slack", "w", "you"),))
    assert await costs(other) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": "person"},
        {"by": "day,day"},
        {"by": "day,model,key,tool"},
        {"since": "2026-13"},
        {"until": "2026-02-30"},
        {"since": "yesterday"},
        {"since": "20261101"},
        {"until": "2026-W45-1"},
        {"limit": 0},
    ],
)
def test_what_cannot_be_asked_is_said(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"expected|greater"):
        UsageParams(**wrong)


async def test_an_empty_ledger_is_said_in_words() -> None:
    assert "nothing was used" in shown(await asked(), 80)


@pytest.mark.parametrize("width", [80, 120])
async def test_a_terminal_shows_bars_sums_and_what_they_lack(width: int) -> None:
    calls = [
        made_call(day=f"2026-11-{day:02}", cost=day * 10**12, saved=10**12, session="s" * 90)
        for day in (1, 4, 8)
    ]
    calls += [
        made_call(day="2026-11-08", cost=None, reported=False, status="cut"),
        made_call(day="2026-11-08", cost=0, sent=False, status="refused"),
    ]
    text = shown(await asked(*calls, by="session,day"), width)
    lines = text.splitlines()
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("▂  ▅   █  2026-11-01 to 2026-11-08")
    assert lines[1].startswith("$13.0000; 5 calls; 500 tokens in, 50 out; caching saved $3.0000")
    for said in (
        "* 1 call of models without a known price",
        "1 call with estimated tokens",
        "1 call refused, and never sent",
        "1 call that did not end well",
        "no store: what is recorded is lost",
    ):
        assert said in text


async def test_a_terminal_gets_no_codes_from_what_others_have_named() -> None:
    text = shown(await asked(made_call(tool="\x1b[2Jevil"), by="tool"), 80)
    assert "\x1b" not in text


async def test_no_cell_of_a_csv_is_a_formula() -> None:
    words = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", 'a,"b"\n', "plain"]
    calls = [made_call(tool=word, saved=-5 * 10**11) for word in words]
    found = await asked(*calls, by="tool")
    head, *rows = csv.reader(io.StringIO(views.to_csv(found)))
    assert head[:2] == ["tool", "calls"]
    assert sorted(row[0] for row in rows) == sorted(
        word if word in ('a,"b"\n', "plain") else f"'{word}" for word in words
    )
    # A number below 0 stays a number.
    assert {row[head.index("saved_usd")] for row in rows} == {"-0.500000000000"}


def test_bars_are_of_tokens_where_nothing_has_a_cost() -> None:
    def day(number: int, tokens: int) -> dict[str, Any]:
        return {
            "of": {"day": f"2026-11-{number:02}"},
            "cost_usd": "0",
            "input_tokens": tokens,
            "output_tokens": 0,
        }

    assert views.sparkline([day(1, 8), day(3, 4)], 40) == "█ ▅"
    assert views.sparkline([day(1, 8), day(30, 4)], 5) == "    █"
    assert views.sparkline([day(1, 0)], 40) == "▁"


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("0", "$0"),
        ("0.000000000001", "<$0.0001"),
        ("-0.00001", "-<$0.0001"),
        ("0.5", "$0.5000"),
        ("-12.34567", "-$12.3457"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_money_for_people_is_never_nothing_where_there_is_some(amount: str, said: str) -> None:
    assert views.money(amount) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (99_960, "100k"), (999_600, "1.0M"), (10**13, "10T")],
)
def test_numbers_for_narrow_terminals_are_short(number: int, said: str) -> None:
    assert views.short(number) == said


def test_figures_of_calls_reach_the_metrics_without_anybodys_name() -> None:
    call = made_call(cost=25 * 10**10, saved=-5, cache_read_tokens=7, principal="p", session="s")
    reader = Instruments(INSTRUMENTS)
    record = MetricRecord(name=CALL, timestamp=0, fields=call_fields(call))
    values = {
        (reading.instrument.name, *reading.labels): reading.value
        for reading in reader.readings(record)
    }
    assert values["hookgate_metering_cost_usd", "acme", "large"] == 0.25
    assert values["hookgate_metering_cache_saved_usd", "acme", "large"] == 0
    assert values["hookgate_metering_tokens", "acme", "large", "cache_read"] == 7
    assert values["hookgate_metering_tokens", "acme", "large", "input"] == 100
    assert values["hookgate_metering_calls", "acme", "large", "done", "true", "true"] == 1
    refused = MetricRecord(name=REFUSED, timestamp=0, fields={"code": "budget_exceeded"})
    assert [reading.labels for reading in reader.readings(refused)] == [("budget_exceeded",)]
    # Who and where is no label, nor in the record.
    assert not {"session", "principal", "key", "tool", "turn"} & set(record.fields)

"""What the row of a call says, and on whose account it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.metering.support import NOON, FixedPrice
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.metering.calls import COUNTS, MOST, LedgerRow, cause_of
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.models import Ending, ModelRef, ModelRequest, Usage
from hookgate.core.domain.turn import Address, Origin, Principal, Turn

DONE = Ending(status="done", stop="end", started=True, sent=True)
REFUSED = Ending(status="refused", error="no", sent=False)


def request(**more: Any) -> ModelRequest:
    return ModelRequest(model=ModelRef("acme", "large/v2"), **more)


def ended(
    turn: Turn,
    asked: ModelRequest,
    usage: Usage,
    price: Any = FixedPrice(),  # noqa: B008 - nobody changes it
    ending: Ending = DONE,
) -> LedgerRow:
    return LedgerRow.of(turn, asked, NOON).ended(ending, usage, price, NOON)


def nested(parent: Turn, *, tool: str = "", agent: str = "helper") -> Turn:
    turn = make_turn(agent=agent, parent=parent, address=Address(peer="inside"))
    turn.origin = Origin(provenance=Provenance.INTER_SESSION, path="nested", tool=tool)
    return turn


def scheduled(path: str) -> Turn:
    turn = make_turn(provenance=Provenance.SCHEDULED)
    turn.origin = Origin(provenance=Provenance.SCHEDULED, path=path)
    return turn


def test_a_row_says_who_what_and_how_much() -> None:
    address = Address(channel="slack", account="work", peer="U1")
    turn = make_turn(
        agent="main", address=address, principal=Principal(id="token:ops", key="ci", bindings=())
    )
    counts = {name: number for number, name in enumerate(COUNTS, start=1)}
    asked = request(call_id="call_7", attempt=1, iteration=2)
    call = ended(turn, asked, Usage(**counts))
    assert call.to_row() == {
        "id": "call_7",
        "at": "2026-11-21T12:00:00.000000+00:00",
        "day": "2026-11-21",
        "turn": turn.id,
        "session": "main:slack:work:U1",
        "agent": "main",
        "channel": "slack",
        "account": "work",
        "principal": "token:ops",
        "key": "ci",
        "cause": "chat",
        "plugin": "",
        "tool": "",
        "provider": "acme",
        "model": "large/v2",
        "attempt": 1,
        "iteration": 2,
        "status": "done",
        "kind": "",
        "sent": True,
        "reported": True,
        **counts,
        "cost": (1 + 2 + 3 + 4 + 5 + 6) + 10 * (7 + 8 + 9 + 10),
        "saved": 2,
        "price": "settings 1",
        "windows": "",
    }


def test_a_call_that_was_refused_leaves_a_row_that_costs_nothing() -> None:
    call = ended(make_turn(), request(), Usage(), FixedPrice(known=False), REFUSED)
    assert (call.status, call.sent, call.cost, call.saved) == ("refused", False, 0, 0)
    assert not call.usage.total


def test_a_model_without_a_price_has_no_cost_and_says_so() -> None:
    unknown = FixedPrice(known=False, version="unknown")
    call = ended(make_turn(), request(), Usage(input_tokens=5), unknown)
    assert (call.cost, call.price, call.usage.input_tokens) == (None, "unknown", 5)


def test_what_nobody_knows_is_marked_as_not_reported() -> None:
    cut = replace(DONE, status="cut", stop=None)
    reserved = Usage(input_tokens=900, output_tokens=1024, reported=False)
    call = ended(make_turn(), request(), reserved, ending=cut)
    assert (call.usage.reported, call.status) == (False, "cut")
    assert (call.usage.input_tokens, call.usage.output_tokens) == (900, 1024)


def test_a_nested_turn_is_charged_to_whoever_has_started_it() -> None:
    person = make_turn(
        agent="main",
        address=Address(channel="slack", account="work", peer="U1"),
        principal=Principal(id="token:ops", key="ci"),
    )
    inner = nested(nested(person, tool="research"))
    call = ended(inner, request(), Usage())
    assert (call.session, call.agent) == ("main:slack:work:U1", "helper")
    assert (call.channel, call.principal, call.key) == ("slack", "token:ops", "ci")
    assert (call.cause, call.tool, call.turn) == ("tool", "research", inner.id)


@pytest.mark.parametrize(
    ("turn", "word", "expected"),
    [
        (make_turn(), "turn", ("chat", "", "")),
        (make_turn(), "memory.extract", ("memory.extract", "memory", "")),
        (make_turn(), "awareness.select", ("awareness.select", "awareness", "")),
        (make_turn(), "summary", ("summary", "", "")),
        (nested(make_turn()), "turn", ("nested", "", "")),
        (nested(make_turn(), tool="research"), "turn", ("tool", "", "research")),
        (nested(make_turn(), tool="research"), "x.y", ("x.y", "x", "research")),
        (scheduled("heartbeat"), "turn", ("heartbeat", "", "")),
        (scheduled("cron"), "turn", ("schedule", "", "")),
        (nested(scheduled("heartbeat"), tool="look"), "turn", ("tool", "", "look")),
    ],
)
def test_what_a_call_was_for(turn: Turn, word: str, expected: tuple[str, str, str]) -> None:
    asked = request(cause=word)
    call = ended(turn, asked, Usage())
    assert (call.cause, call.plugin, call.tool) == expected
    assert cause_of(turn, asked) == expected[0]


def test_a_row_holds_only_what_every_database_takes() -> None:
    address = Address(channel="a\x00b", peer="p" * 5000)
    huge = FixedPrice(each=10**15)
    asked = ModelRequest(model=ModelRef("acme", "\ud800"))
    call = ended(make_turn(address=address), asked, Usage(input_tokens=10**9), huge)
    assert call.channel == "a\ufffdb"
    assert call.model.encode() == b"?"
    assert len(call.session) == 400
    assert call.cost == MOST
    other = Address(channel="a\x00b", peer="p" * 5001)
    again = ended(make_turn(address=other), request(), Usage(), huge)
    # They are two sessions, however much their names have in common.
    assert again.session != call.session

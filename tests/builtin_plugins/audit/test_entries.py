from __future__ import annotations

import base64
import hashlib

import pytest
from tests.builtin_plugins.turns import make_call, make_turn

from hookgate.builtin_plugins.audit.entries import category, decided, finished
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.parts import Image, Text
from hookgate.core.domain.tools import Ask, Decision, Effect, ToolResult, Verdict
from hookgate.core.domain.turn import Address


def flags(**values: bool | None) -> Flags:
    return Flags.from_mapping({**Flags.none().to_json(), **values})


@pytest.mark.parametrize(
    ("declared", "word"),
    [
        (flags(), "pure"),
        (Flags(), "unknown"),
        (flags(reads_external_data=True), "read"),
        (flags(writes_persistent_state=True, reads_external_data=True), "write"),
        (flags(sends_externally=True, writes_persistent_state=True), "send"),
        (flags(creates_autonomous_actions=True, sends_externally=True), "autonomous"),
        (flags(executes_privileged=True, creates_autonomous_actions=True), "privileged"),
        (flags(executes_privileged=None, reads_external_data=True), "read"),
        (flags(executes_privileged=None), "unknown"),
    ],
)
def test_call_is_filed_under_the_gravest_thing_it_declares(declared: Flags, word: str) -> None:
    assert category(declared) == word


def test_decision_is_recorded_with_all_that_a_policy_could_look_at() -> None:
    turn = make_turn(
        agent="ops",
        address=Address("slack", "acme", "bob"),
        provenance=Provenance.CHANNEL,
        taint={"tool:http_get"},
    )
    call = make_call("mail", flags(sends_externally=True), {"to": "a"})
    verdicts = (Verdict(effect=Effect.DENY, reason="no", rule="r1", plugin="policy"),)
    decision = Decision(
        effect=Effect.DENY,
        reason="no",
        by="policy",
        rule="r1",
        verdicts=verdicts,
        rounds=2,
        asked=Ask(title="May it?"),
    )
    entry = decided(turn, call, decision)
    assert (entry.kind, entry.outcome, entry.category) == ("tool_decided", "deny", "send")
    assert (entry.turn, entry.call, entry.tool) == (turn.id, "call-1", "mail")
    assert entry.session == "ops:slack:acme:bob"
    expected = {
        "provenance": "channel",
        "taint": ["tool:http_get"],
        "arguments": {"to": "a"},
        "flags": flags(sends_externally=True).to_json(),
        "tool_digest": call.tool.digest,
        "call_digest": call.digest,
        "rule": "r1",
        "rounds": 2,
        "asked": "May it?",
        "verdicts": [{"plugin": "policy", "effect": "deny", "rule": "r1", "reason": "no"}],
        "principal": "loopback",
        "channel": "slack",
    }
    assert {key: entry.data[key] for key in expected} == expected


def test_outcome_is_recorded_by_size_and_digest_not_by_text() -> None:
    result = ToolResult(content="hällo", taint=frozenset({"x"}), reveal=("y",))
    entry = finished(make_turn(), make_call("mail"), result)
    assert (entry.kind, entry.outcome) == ("tool_finished", "done")
    assert entry.data["bytes"] == 6
    assert entry.data["sha256"] == hashlib.sha256("hällo".encode()).hexdigest()
    assert (entry.data["taint"], entry.data["reveal"]) == (["x"], ["y"])
    assert "hällo" not in str(entry.data)


def test_error_is_recorded_with_its_beginning() -> None:
    result = ToolResult.error("e" * 1000, status="timeout")
    entry = finished(make_turn(), make_call("mail"), result)
    assert entry.outcome == "timeout"
    assert entry.data["error"] == "e" * 500


def test_parts_are_recorded_by_type_size_and_digest() -> None:
    picture = b"a picture"
    data = base64.b64encode(picture).decode()
    result = ToolResult(content=(Text("hällo"), Image(media_type="image/png", data=data)))
    entry = finished(make_turn(), make_call("mail"), result)
    assert entry.data["parts"] == [
        {"type": "text", "bytes": 6, "sha256": hashlib.sha256("hällo".encode()).hexdigest()},
        {
            "type": "image",
            "media_type": "image/png",
            "bytes": 9,
            "sha256": hashlib.sha256(picture).hexdigest(),
        },
    ]
    assert "hällo" not in str(entry.data) and data not in str(entry.data)

"""Records: their ids, what may be in them, and what may be done to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.inventory.record import (
    CapabilityRecord,
    affordance,
    derived_writable,
    from_json,
    parse_id,
    problem_of,
    readable,
    record_id,
    refusal,
)

WORD = st.text(min_size=1, max_size=20)


def made(key: str = "search", **changes: Any) -> CapabilityRecord:
    given: dict[str, Any] = {"kind": "tool", "source": "brokered-mcp", "manageability": "managed"}
    return CapabilityRecord.of("native", key, **{**given, **changes})


@given(source=WORD, runtime=WORD, agent=st.none() | WORD, key=WORD)
def test_an_id_says_what_it_was_made_of_whatever_stands_in_it(
    source: str, runtime: str, agent: str | None, key: str
) -> None:
    scope = "global" if agent is None else "agent"
    text = record_id(source, runtime=runtime, kind="tool", key=key, scope=scope, agent_id=agent)

    assert parse_id(text) == (source, runtime, scope, agent, "tool", key)


def test_an_id_is_the_same_each_time_and_reads_as_it_is_documented() -> None:
    assert made("mcp:a:b").id == "native:native:global:global:tool:mcp:a:b"
    assert made("x", agent_id="global").id == "native:native:agent:global:tool:x"
    assert made("x", agent_id="a:b").id == "native:native:agent:a%3Ab:tool:x"
    assert made("x", runtime="hermes", scope="team").id == "native:hermes:team:global:tool:x"


@pytest.mark.parametrize("text", ["", "tool:x", "a:b:c:d:e:", "a::global:global:tool:x"])
def test_what_is_no_id_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="expected source:runtime:scope:agent:kind:key"):
        parse_id(text)


def test_a_record_reads_back_as_it_was_written_and_passes_over_what_it_does_not_know() -> None:
    record = made(diagnostics=("no key",), available=False, status="unavailable", agent_id="ada")

    assert from_json({**record.to_json(), "later": 1}, "native") == record


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "spell"}, "found the kind 'spell', expected one of connector, skill, tool"),
        ({"status": "fine"}, "found the status 'fine'"),
        ({"agent_id": "ada"}, "found the agent 'ada' in the scope 'global'"),
        ({"scope": "agent"}, "found the agent None in the scope 'agent'"),
        ({"id": "hermes:native:global:global:tool:search"}, "expected 'native:native:"),
        ({"source_key": "other"}, "expected 'native:native:global:global:tool:other'"),
        ({"description": "x" * 5000}, "texts of at most"),
        (
            {"source_key": "a\u202eb", "id": "native:native:global:global:tool:a\u202eb"},
            "without control or invisible characters",
        ),
    ],
)
def test_what_is_wrong_with_a_record_is_told(changes: dict[str, Any], said: str) -> None:
    assert said in problem_of(replace(made(), **changes), "native")
    with pytest.raises(ValueError):
        from_json(replace(made(), **changes).to_json(), "native")


def test_a_source_cannot_speak_for_another() -> None:
    assert problem_of(made(), "native") == ""
    assert "expected 'acme:native:" in problem_of(made(), "acme")


# -- tiers ---------------------------------------------------------------------------


def shown(**changes: Any) -> str:
    """Return what stands beside a record: its buttons, or the note in their place."""
    offered = affordance(made(**changes))
    buttons = [
        f"{button.action}{'' if button.enabled else f' ({button.hint})'}"
        for button in offered.buttons
    ]
    return " ".join(buttons) or offered.note


@pytest.mark.parametrize(
    ("changes", "expected", "path"),
    [
        ({}, "disable", "own"),
        ({"status": "disabled"}, "enable", "own"),
        ({"manageability": "observe-only"}, "built-in, managed by native", "none"),
        ({"manageability": "observe-only", "available": False}, "built-in, managed by native", ""),
        ({"available": False}, "", "none"),
        ({"status": "unavailable"}, "", "none"),
        ({"writable": False}, "", "none"),
        (
            {
                "manageability": "external-write",
                "status": "manageable-but-pending-auth",
                "hint": "run `codex login`",
            },
            "enable (run `codex login`) disable",
            "transcoder",
        ),
        (
            {"status": "manageable-but-pending-auth", "hint": "log in"},
            "enable (log in)",
            "none",
        ),
        ({"manageability": "external-write"}, "disable", "transcoder"),
        ({"manageability": "runtime-of-record"}, "disable", "runtime"),
        ({"manageability": "runtime-of-record", "source": "mcp-connector"}, "", "none"),
        ({"manageability": "runtime-of-record", "source": "openclaw-extension"}, "", "none"),
        ({"runtime": "hermes", "source": "curated-skill", "kind": "skill"}, "disable", "own"),
    ],
)
def test_what_may_be_done_follows_from_the_record(
    changes: dict[str, Any], expected: str, path: str
) -> None:
    assert shown(**changes) == expected
    assert affordance(made(**changes)).path == (path or "none")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"status": "disabled"}, ""),
        ({"manageability": "observe-only"}, "can only be looked at: built-in, managed by native"),
        ({"writable": False}, "cannot be switched through native by now"),
        ({"available": False, "diagnostics": ("no key",)}, "cannot be disabled: no key"),
        (
            {"status": "manageable-but-pending-auth", "hint": "log in"},
            "cannot be changed yet: log in",
        ),
    ],
)
def test_what_has_no_button_is_refused_and_nothing_else(changes: dict[str, Any], said: str) -> None:
    why = refusal(made(**changes), "disable")

    assert why.endswith(said)
    assert bool(why) == (not any(one.enabled for one in affordance(made(**changes)).buttons))


def test_what_can_be_switched_is_derived_from_where_it_comes_from() -> None:
    assert derived_writable("mcp-connector", "external-write")
    assert derived_writable("brokered-mcp", "runtime-of-record")
    assert not derived_writable("mcp-connector", "runtime-of-record")


def test_what_a_stranger_says_is_one_line_that_shows_what_is_in_it() -> None:
    said = {
        "name": "ls\r\x1b[2K\x1b]0;title\x07",
        "description": "Sorts.\n\n  status: ready\u2028risk: low",
        "hint": "run \u202etxt.exe",
        "provenance": "/home/a\u200bda/config",
    }
    shown = readable(replace(made(), **said, diagnostics=("a\nb", "fine")))
    assert shown.name == r"ls \x1b[2K\x1b]0;title\x07"
    assert shown.description == "Sorts. status: ready risk: low"
    assert shown.hint == r"run \u202etxt.exe"
    assert shown.provenance == r"/home/a\u200bda/config"
    assert shown.diagnostics == ("a b", "fine")
    assert readable(shown) is shown
    assert problem_of(shown, "native") == ""

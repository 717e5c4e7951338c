from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.awareness.switch import (
    SESSIONS,
    TURNS,
    Injected,
    Recent,
    TurnRecord,
    read_turns,
    session_type,
)
from hookgate.core.domain.messages import Provenance

RECORD = TurnRecord(
    timestamp=1_707_820_800_123,
    session="main:cli:local:main",
    session_type="main",
    tags=("config",),
    injected=(Injected(id="token-economy", score=1.0, tokens=580),),
    selection_ms=1.23456,
)


def test_a_record_has_the_documented_keys_and_its_time_is_in_milliseconds() -> None:
    assert RECORD.to_json() == {
        "timestamp": 1_707_820_800_123,
        "sessionKey": "main:cli:local:main",
        "sessionType": "main",
        "routerTags": ["config"],
        "injected": [{"id": "token-economy", "relevanceScore": 1.0, "tokensUsed": 580}],
        "totalTokens": 580,
        "selectionTimeMs": 1.235,
    }


@given(
    st.builds(
        TurnRecord,
        timestamp=st.integers(0, 2**53),
        session=st.text(max_size=20),
        session_type=st.sampled_from(["main", "isolated"]),
        tags=st.lists(st.text(max_size=5), max_size=3).map(tuple),
        injected=st.lists(
            st.builds(
                Injected,
                id=st.text(min_size=1, max_size=9),
                score=st.sampled_from([0.0, 0.25, 1.0]),
                tokens=st.integers(0, 1500),
            ),
            max_size=3,
        ).map(tuple),
        selection_ms=st.sampled_from([0.0, 1.5]),
    )
)
def test_a_record_is_read_as_it_was_written(record: TurnRecord) -> None:
    assert TurnRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"timestamp": "soon", "sessionKey": "a"},
        {"timestamp": 1},
        {"timestamp": 1, "sessionKey": "a", "injected": [3]},
        {"timestamp": 1, "sessionKey": "a", "injected": [{"id": "x", "tokensUsed": "many"}]},
        {"timestamp": float("inf"), "sessionKey": "a"},
        {"timestamp": 1, "sessionKey": "a", "routerTags": 7},
    ],
)
def test_what_is_no_record_is_passed_over(held: dict[str, Any]) -> None:
    assert TurnRecord.from_json(held) is None


def test_records_come_from_all_files_oldest_first_and_a_torn_line_costs_nothing(
    tmp_path: Path,
) -> None:
    def line(at: int) -> str:
        return json.dumps({"timestamp": at, "sessionKey": "s"})

    (tmp_path / "turns.jsonl.2").write_text(line(1) + "\n")
    (tmp_path / "turns.jsonl.1").write_text(line(2) + "\n" + line(3)[:20] + "\n" + line(4) + "\n")
    (tmp_path / "turns.jsonl").write_text(line(5) + "\n" + line(6)[:9])
    path = tmp_path / "turns.jsonl"
    assert [record.timestamp for record in read_turns(path, 3)] == [1, 2, 4, 5]
    assert [record.timestamp for record in read_turns(path, 3, since=4)] == [4, 5]
    assert [record.timestamp for record in read_turns(path, 0)] == [5]


@pytest.mark.parametrize(
    ("provenance", "depth", "kind"),
    [
        (Provenance.EXTERNAL_USER, 0, "main"),
        (Provenance.CHANNEL, 0, "main"),
        (Provenance.EXTERNAL_USER, 1, "isolated"),
        (Provenance.INTER_SESSION, 1, "isolated"),
        (Provenance.SCHEDULED, 0, "isolated"),
    ],
)
def test_a_persons_session_is_main_and_a_nested_or_scheduled_one_isolated(
    provenance: Provenance, depth: int, kind: str
) -> None:
    assert session_type(make_turn(provenance=provenance, depth=depth)) == kind


def test_the_last_turns_of_the_last_sessions_are_remembered_and_no_more() -> None:
    recent = Recent()
    for number in range(TURNS + 5):
        recent.add("a", {"n": number})
    assert [told["n"] for told in recent.of("a")] == list(range(5, TURNS + 5))
    for number in range(SESSIONS):
        recent.add(f"other {number}", {})
    assert recent.of("a") == ()

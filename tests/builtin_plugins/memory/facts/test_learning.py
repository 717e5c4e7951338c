from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.builtin_plugins.memory.facts.telling import (
    CHATTER,
    ME,
    NOON,
    facts,
    known,
    opened,
    rows,
    shown,
    told,
    utterance,
)
from tests.builtin_plugins.stores import opened_store

from hookgate.builtin_plugins.memory.domain import ASSISTANT
from hookgate.builtin_plugins.memory.tables import METADATA, SCRIPTS

if TYPE_CHECKING:
    from sqlalchemy import Connection

OTHER = "peer:telegram:bot:other"
LATER = NOON + timedelta(days=1)


def test_two_peers_know_nothing_of_each_other() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn([utterance("My dog is called Luna.", 1)], connection)
        memory.learn([utterance("My dog is called Rex. She is 4.", 2, scope=OTHER)], connection)
        memory.learn([utterance("Luna is 9.", 3, scope=OTHER)], connection)

        assert [shown(row) for row in rows(connection)] == ["user | dog | Luna"]
        assert [shown(row) for row in rows(connection, OTHER)] == [
            "user | dog | Rex",
            "rex | age | 4",
        ]
        for question in ("what's my dog's name?", "Who is Luna?", "dog Luna Rex"):
            hits = memory.search([OTHER], question, connection, at=LATER)
            assert not any("Luna" in hit.text for hit in hits)
            assert {hit.scope for hit in hits} <= {OTHER}
        assert memory.search([], "what's my dog's name?", connection, at=LATER) == []
        both = memory.search([ME, OTHER], "what's my dog's name?", connection, at=LATER)
        assert {hit.scope for hit in both} == {ME, OTHER}


def test_a_hit_says_why_and_where_it_is_from() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn([utterance("My sister Ann lives in Rome.", 1)], connection)
        (hit, *_) = memory.search([ME], "Where does Ann live?", connection, at=LATER)

    assert hit.text == "Ann lives in Rome"
    assert "names Ann" in hit.why
    assert any(why.startswith("word: ") for why in hit.why)
    assert (hit.kind, hit.session, hit.turn) == ("fact", "main:telegram:bot:me", "turn_1")
    assert (hit.provenance, hit.at) == ("external_user", NOON + timedelta(minutes=1))


def test_the_walk_goes_two_steps_and_no_further() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("My sister is called Ann.", 1),
                utterance("Ann's husband is called Paul.", 2),
                utterance("Paul's brother is called Karl.", 3),
                utterance("Karl's cat is called Tom.", 4),
            ],
            connection,
        )
        found = memory.search([ME], "tell me about my sister", connection, at=LATER)
    texts = " ".join(hit.text for hit in found)

    assert "husband: Paul" in texts
    assert "brother: Karl" in texts
    assert "Tom" not in texts


async def test_a_fact_from_tainted_text_is_tainted_after_a_restart(tmp_path: Path) -> None:
    memory = facts()
    tainted = utterance("My dog is called Luna.", 1, taint=frozenset({"tool:http_get"}))
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", METADATA, SCRIPTS)
        await store.write(lambda connection: memory.learn([tainted], connection))
    async with opened_store(tmp_path) as store:
        (hit,) = await store.read(
            lambda connection: facts().search([ME], "my dog?", connection, at=LATER)
        )
    assert hit.taint == {"tool:http_get"}
    assert hit.provenance == "external_user"


def test_tainted_text_does_not_change_what_somebody_said_themselves() -> None:
    memory = facts()
    tainted = frozenset({"tool:http_get"})
    with opened() as connection:
        memory.learn([utterance("I live in Rome. I like tea.", 1)], connection)
        told = [
            utterance("I moved to Paris.", 2, taint=tainted),
            utterance("No, I live in Paris, not Rome.", 3, taint=tainted),
            utterance("I no longer live in Rome.", 4, taint=tainted),
            utterance("I don't like tea any more. I hate tea.", 5, taint=tainted),
        ]
        memory.learn(told, connection)
        assert [shown(row) for row in known(connection, LATER)] == [
            "user | lives in | Rome",
            "user | likes | tea",
        ]
        assert all(row.taint == "[]" for row in known(connection, LATER))


def test_ones_own_word_takes_the_taint_from_what_was_read() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("My dog is called Luna.", 1, taint=frozenset({"tool:x"})),
                utterance("My dog is called Luna.", 2),
            ],
            connection,
        )
        (row,) = known(connection, LATER)
        assert (row.taint, row.turn) == ("[]", "turn_2")
        assert len(rows(connection)) == 2


def test_the_answer_is_believed_less() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn([utterance("You live in Rome.", 1, speaker=ASSISTANT)], connection)
        (row,) = rows(connection)
        assert row.confidence < 0.5
        memory.learn([utterance("I live in Rome.", 2)], connection)
        (row,) = known(connection, LATER)
        assert row.confidence > 0.8


def test_somebody_with_a_name_speaks_of_themselves() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("I live in Rome and my dog is called Luna.", 1, speaker="Caroline"),
                utterance("I moved to Oslo.", 2, speaker="Mel"),
                utterance("Luna is 3.", 3, speaker="Mel"),
            ],
            connection,
        )
        assert [shown(row) for row in rows(connection)] == [
            "caroline | lives in | Rome",
            "caroline | dog | Luna",
            "mel | lives in | Oslo",
            "luna | age | 3",
        ]
        hits = memory.search([ME], "Where does Caroline live?", connection, at=LATER, limit=1)
        assert hits[0].text == "Caroline lives in Rome"


def test_what_is_filled_is_never_overwritten() -> None:
    told = [
        "I live in Rome.",
        "I moved to Oslo.",
        "No, I live in Bergen, not Oslo.",
        "I no longer live in Bergen.",
        "I live in Rome.",
        "I like tea.",
        "I hate tea.",
        "My dog is called Luna.",
        "No, Luna is the cat.",
    ]
    memory = facts()
    with opened() as connection:
        before: dict[int, dict[str, object]] = {}
        for number, text in enumerate(told):
            memory.learn([utterance(text, number)], connection)
            now = {row.number: dict(row._mapping) for row in rows(connection)}
            for number_, values in before.items():
                for name, value in values.items():
                    if value is not None:
                        assert now[number_][name] == value
            before = now
        assert [shown(row) for row in known(connection, LATER)] == [
            "user | lives in | Rome",
            "user | dislikes | tea",
            "user | cat | Luna",
        ]


@pytest.mark.parametrize("turns", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_turns_with_recall_leave_as_many_facts_as_were_said(turns: int) -> None:
    memory = facts()
    with opened() as connection:
        said = ["My dog is called Luna.", "I live in Rome.", "I like tea.", "I work at Acme."]
        for number in range(turns):
            text = said[number] if number < len(said) else CHATTER[number % len(CHATTER)]
            at = NOON + timedelta(minutes=number)
            memory.learn([utterance(text, number, at=at)], connection)
            hits = memory.search([ME], f"{text} dog live like work", connection, at=at)
            # The answer says again what was recalled, to the one it talks with.
            answer = " ".join(
                hit.text.replace("the user's", "Your")
                .replace("the user lives", "You live")
                .replace("the user likes", "You like")
                .replace("the user works", "You work")
                + "."
                for hit in hits
            )
            answer = f"Your dog is called Luna. {answer}"
            memory.learn([utterance(answer, 10_000 + number, at=at, speaker=ASSISTANT)], connection)
        assert len(rows(connection)) == len(said)


async def test_a_transaction_that_fails_leaves_nothing_half_done(tmp_path: Path) -> None:
    memory = facts()

    def fail(connection: Connection) -> None:
        memory.learn([utterance("I moved to Oslo. My sister is called Ann.", 2)], connection)
        memory.forget([ME], connection, said=["msg_1"])
        raise RuntimeError("killed")

    async with opened_store(tmp_path) as store:
        await store.migrate("memory", METADATA, SCRIPTS)
        await store.write(
            lambda connection: memory.learn([utterance("I live in Rome.", 1)], connection)
        )
        before = await store.read(lambda connection: list(memory.export([ME], connection)))
        with pytest.raises(RuntimeError):
            await store.write(fail)
        after = await store.read(lambda connection: list(memory.export([ME], connection)))
    assert after == before
    assert len(after) == 1


@pytest.mark.parametrize(
    ("said", "value", "sure"),
    [
        (["I live in Rome."], "Rome", 0.9),
        (["I think I live in Rome."], "Rome", 0.6),
        (["I live in Rome.", "Well, I live in Rome."], "Rome", 0.99),
        (["I think I live in Rome.", "I live in Rome."], "Rome", 0.96),
        (["I'm a carpenter."], "carpenter", 0.8),
        (["My dog is called Luna.", "She is 4."], "4", 0.765),
        (["A: You live in Rome."], "Rome", 0.45),
        (["A: You live in Rome.", "A: You live in Rome.", "A: You live in Rome."], "Rome", 0.45),
        (["A: You live in Rome.", "I live in Rome."], "Rome", 0.9),
    ],
)
def test_how_sure_a_fact_is_follows_from_who_said_it_how_and_how_often(
    said: list[str], value: str, sure: float
) -> None:
    with opened() as connection:
        facts().learn(told(said), connection)
        found = [row.confidence for row in known(connection, LATER) if row.value == value]
    assert found == [pytest.approx(sure)]


def test_what_was_said_again_is_less_sure_once_that_is_forgotten() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(told(["I live in Rome.", "I think I live in Rome."]), connection)
        memory.forget([ME], connection, said=["msg_0"])
        assert [row.confidence for row in rows(connection)] == [0.6]
        (hit,) = memory.search([ME], "where do I live?", connection, at=LATER)
    assert hit.text == "the user lives in Rome (not sure)"

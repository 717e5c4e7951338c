"""Turns go on with what the process remembers of a session, and with nothing else than is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import sqlalchemy as sa
from tests.support.script import Script, Scripted, say, settings

from hookgate import Gateway
from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.tables import MESSAGES, SESSIONS
from hookgate.builtin_plugins.storage.tails import Standing, Stored, Tail, Tails
from hookgate.core.domain.errors import StaleFenceError
from hookgate.core.domain.messages import Message, ToolResultPart, ToolUse
from hookgate.core.domain.parts import Text
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Fence, SessionKey
from hookgate.core.host import SystemClock
from hookgate.ports import STORE

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore

HERE = SessionKey("demo", "cli", "local", "main")
THERE = SessionKey("demo", "cli", "local", "other")
BUILTIN = ("control", "storage", "providers")

Two: TypeAlias = tuple[SqlConversations, SqlConversations, SqlStore]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def two(request: pytest.FixtureRequest, opened: OpenStore) -> Two:
    """The conversations of one database, as two that know nothing of each other have them."""
    if request.param == "sqlite":
        one = other = await opened()
    else:
        url = request.getfixturevalue("url")
        one, other = await opened(url=url), await opened(url=url)
    assert one.durable
    return SqlConversations(one, SystemClock()), SqlConversations(other, SystemClock()), other


def said(text: str, turn: str) -> Message:
    return Message(role="user", parts=(Text(text),), turn=turn)


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


async def holder(kept: SqlConversations) -> Fence:
    fence = Fence()
    await kept.load(HERE, turns=5, fence=fence)
    return fence


async def test_what_was_written_is_recalled_as_it_is_read(two: Two) -> None:
    one, other, _ = two
    fence = await holder(one)
    for number in range(8):
        await one.append(HERE, [said(f"{number}?", str(number))], fence=fence)
        await one.append(HERE, [said(f"{number}!", str(number))], fence=fence)
    for turns in (1, 3, 5):
        recalled = one.recall(HERE, turns=turns, fence=Fence())
        assert recalled is not None
        assert list(recalled.messages) == list(await other.history(HERE, turns=turns))
    assert one.recall(HERE, turns=6, fence=Fence()) is None
    assert one.recall(THERE, turns=1, fence=Fence()) is None
    assert other.recall(HERE, turns=1, fence=Fence()) is None


async def test_a_conversation_that_is_known_from_its_first_message_is_known_whole(
    two: Two,
) -> None:
    one, _, _ = two
    fence = await holder(one)
    await one.append(HERE, [said("a", "1")], fence=fence)
    await one.append(HERE, [said("b", "2")], fence=fence)
    recalled = one.recall(HERE, turns=100, fence=Fence())
    assert recalled is not None
    assert texts(recalled.messages) == ["a", "b"]


async def written(two: Two) -> None:
    await two[1].append(HERE, [said("another's", "2")], fence=Fence())


async def tainted(two: Two) -> None:
    await two[1].add_taint(HERE, frozenset({"tool:web"}), fence=Fence())


async def forgotten(two: Two) -> None:
    assert await two[1].forget(HERE, turns=["1"]) == 1


async def forgotten_whole(two: Two) -> None:
    assert await two[1].forget(HERE) == 2


async def deleted(two: Two) -> None:
    await two[2].write(lambda connection: connection.execute(MESSAGES.delete()) and None)
    await two[2].write(lambda connection: connection.execute(SESSIONS.delete()) and None)


@pytest.mark.parametrize("change", [written, tainted, forgotten, forgotten_whole, deleted])
async def test_what_has_changed_behind_a_tail_is_seen_before_anything_rests_on_it(
    two: Two, change: Any
) -> None:
    one, other, _ = two
    fence = await holder(one)
    await one.append(HERE, [said("a", "1")], fence=fence)
    await one.append(HERE, [said("b", "2")], fence=fence)
    await change(two)
    fence = Fence()
    assert one.recall(HERE, turns=5, fence=fence) is not None
    with pytest.raises(StaleFenceError):
        await one.append(HERE, [said("c", "3")], fence=fence)
    loaded = await one.load(HERE, turns=5, fence=fence)
    assert list(loaded.messages) == list(await other.history(HERE, turns=5))
    assert loaded.taint == await other.taint(HERE, turns=0)
    await one.append(HERE, [said("c", "3")], fence=fence)
    recalled = one.recall(HERE, turns=5, fence=Fence())
    assert recalled is not None
    assert texts(recalled.messages) == [*texts(loaded.messages), "c"]
    assert recalled.taint == loaded.taint


async def test_what_is_forgotten_or_tainted_here_is_not_recalled(two: Two) -> None:
    one, _, _ = two
    fence = await holder(one)
    await one.append(HERE, [said("a", "1")], fence=fence)
    await one.add_taint(HERE, frozenset({"tool:web"}), fence=fence)
    assert one.recall(HERE, turns=5, fence=Fence()) is None
    assert (await one.load(HERE, turns=5, fence=Fence())).taint == {"tool:web"}
    await one.forget(HERE)
    assert one.recall(HERE, turns=5, fence=Fence()) is None
    assert (await one.load(HERE, turns=5, fence=Fence())).messages == ()


@pytest.mark.parametrize("whom", [["ann"], "ann"])
async def test_nobody_can_change_what_others_are_given(two: Two, whom: Any) -> None:
    one, _, _ = two
    kept = {"to": list(whom) if isinstance(whom, list) else whom}
    use = ToolUse(id="1", name="send", input={"to": whom})
    message = Message(role="assistant", parts=(use,), turn="1")
    await one.append(HERE, [message], fence=await holder(one))
    given = one.recall(HERE, turns=5, fence=Fence())
    assert given is not None
    learned = await one.since()
    for changed in (message, *given.messages, learned.said[0].message):
        arguments: Any = changed.tool_uses[0].input
        arguments["cc"] = "eve"
        if isinstance(whom, list):
            arguments["to"].append("eve")
    again = one.recall(HERE, turns=5, fence=Fence())
    assert again is not None
    assert again.messages[0].tool_uses[0].input == kept
    assert (await one.since()).said[0].message.tool_uses[0].input == kept


async def test_what_tools_were_asked_and_said_is_recalled_as_it_is_read(two: Two) -> None:
    one, other, _ = two
    fence = await holder(one)
    for number in range(3):
        turn = str(number)
        use = ToolUse(id=turn, name="look", input={"at": number, "whole": True, "by": None})
        deep = ToolUse(id=f"{turn}b", name="look", input={"at": [number]})
        results = (
            ToolResultPart(tool_use_id=turn, content="a", taint=frozenset({"web"})),
            ToolResultPart(tool_use_id=f"{turn}b", content=(Text("b"),), is_error=True),
        )
        called = [
            Message(role="assistant", parts=(Text("I look."), use), turn=turn),
            Message(role="assistant", parts=(deep,), turn=turn),
            Message(role="tool", parts=results, turn=turn, taint=frozenset({"web"})),
        ]
        await one.append(HERE, [said(f"{number}?", turn)], fence=fence)
        await one.append(HERE, called, fence=fence)
    recalled = one.recall(HERE, turns=3, fence=Fence())
    assert recalled is not None
    assert list(recalled.messages) == list(await other.history(HERE, turns=3))
    assert [each.message for each in (await one.since()).said] == list(recalled.messages)


def stored(number: int, text: str) -> Stored:
    return Stored.of(number, text, said(text, str(number)))


def test_tails_are_bounded_in_sessions_and_in_characters() -> None:
    tails = Tails(sessions=3, chars=10_000)
    for number in range(4):
        tails.keep(f"s{number}", Tail.of(Standing(1, 1, 1, 0), "[]", 5, [stored(1, "x" * 500)]))
        assert tails.get("s0") is not None  # and so it is the last to go
    assert [bool(tails.get(f"s{number}")) for number in range(4)] == [True, False, True, True]
    tails.keep("long", Tail.of(Standing(1, 1, 1, 0), "[]", 5, [stored(1, "x" * 6500)]))
    kept = [name for name in ("s0", "s2", "s3", "long") if tails.get(name)]
    assert kept == ["s3", "long"]
    tails.keep("too long", Tail.of(Standing(1, 1, 1, 0), "[]", 5, [stored(1, "x" * 20_000)]))
    assert tails.get("too long") is None


# -- gateways ----------------------------------------------------------------------------


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count what the store reads."""
    seen = [0]
    read = SqlStore.read

    async def counted(store: SqlStore, work: Any) -> Any:
        seen[0] += 1
        return await read(store, work)

    with monkeypatch.context() as patch:
        patch.setattr(SqlStore, "read", counted)
        yield seen


async def test_a_turn_that_goes_on_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(say("one"), say("two"))
    config = settings(tmp_path)
    async with Gateway(config, builtin=BUILTIN, plugins=[Scripted(script)]) as gate:
        await gate.chat("first")
        with reads(monkeypatch) as seen:
            await gate.chat("second")
        assert seen == [0]
        assert texts(script.requests[-1].messages) == ["first", "one", "second"]


async def test_what_somebody_has_deleted_from_the_file_is_not_sent(tmp_path: Path) -> None:
    script = Script(say("one"), say("two"), say("three"))
    config = settings(tmp_path)
    async with Gateway(config, builtin=BUILTIN, plugins=[Scripted(script)]) as gate:
        await gate.chat("first")
        with closing(sqlite3.connect(tmp_path / "hookgate.db")) as beside, beside:
            beside.execute("DELETE FROM storage_messages WHERE role = 'user'")
        assert (await gate.chat("second")).ending == "done"
        assert texts(script.requests[-1].messages) == ["one", "second"]
        await gate.chat("third")
        assert texts(script.requests[-1].messages) == ["one", "second", "two", "third"]


async def test_a_turn_goes_on_with_what_is_there_whatever_was_remembered(tmp_path: Path) -> None:
    script = Script(say("one"), say("two"), say("three"))
    config = settings(tmp_path)
    async with Gateway(config, builtin=BUILTIN, plugins=[Scripted(script)]) as gate:
        turn = await gate.chat("first")
        others = SqlConversations(gate.host[STORE], gate.host.clock)  # type: ignore[arg-type]
        await others.append(turn.session, [said("another's", "x")], fence=Fence())
        await others.add_taint(turn.session, frozenset({"tool:web"}), fence=Fence())
        turn = await gate.chat("second")
        assert turn.ending == "done"
        assert "tool:web" in turn.taint
        assert texts(script.requests[-1].messages) == ["first", "one", "another's", "second"]
        await gate.host[STORE].write(
            lambda connection: connection.execute(sa.delete(SESSIONS)) and None
        )
        await gate.host[STORE].write(
            lambda connection: connection.execute(sa.delete(MESSAGES)) and None
        )
        turn = await gate.chat("third")
        assert "tool:web" not in turn.taint
        assert texts(script.requests[-1].messages) == ["third"]
        kept = await gate.host[CONVERSATIONS].history(turn.session, turns=5)
        assert texts(kept) == ["third", "three"]

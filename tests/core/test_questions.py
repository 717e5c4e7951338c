"""Questions that a plugin asks people, without any store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import gateway

from hookgate import (
    QUESTIONS,
    Address,
    Empty,
    Host,
    Invocation,
    Operation,
    OperationModel,
    Principal,
    Question,
    TurnError,
    hookimpl,
)
from hookgate.core.domain.turn import Claim
from hookgate.sessions import InProcessQuestions

NOW = datetime.now(UTC)
SIZE = Question(
    id="ask_1",
    subject="form",
    text={"title": "Which size?"},
    schema={"type": "object", "properties": {"size": {"enum": ["S", "L"]}}, "required": ["size"]},
    binding="d" * 64,
    address=Address("web", "shop", "ada"),
    asked=NOW,
    expires=NOW + timedelta(days=2),
)
ADA = Principal(id="ada", scopes=frozenset({"approve"}), bindings=(Claim("web", "shop", "ada"),))
BOB = Principal(id="bob", scopes=frozenset({"approve"}), bindings=(Claim("web", "shop", "bob"),))


async def test_the_first_answer_counts_and_resolves_the_question() -> None:
    questions = InProcessQuestions()
    settled = await questions.ask(SIZE)
    assert await questions.find(SIZE.id) == SIZE
    answers = [questions.answer(SIZE.id, {"size": one}, by=one) for one in "SLSL"]
    assert (await asyncio.gather(*answers)).count(True) == 1
    made = settled.result()
    assert (made.state, made.value) == ("answered", {"size": made.by})
    assert await questions.find(SIZE.id) is None
    # Who ends it afterwards learns what became of it no other way than before.
    assert (await questions.end(SIZE.id, "expired", "late")).state == "expired"


async def test_an_answer_that_does_not_fit_or_cannot_be_kept_leaves_the_question_waiting() -> None:
    questions = InProcessQuestions()
    settled = await questions.ask(SIZE)
    with pytest.raises(TurnError, match="none that was asked for") as caught:
        await questions.answer(SIZE.id, {"size": "M"}, by="ada")
    assert caught.value.code == "invalid_params"

    def fails(_: Any) -> None:
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        await questions.answer(SIZE.id, {"size": "S"}, by="ada", also=fails)
    assert not settled.done()
    assert await questions.answer(SIZE.id, {"size": "L"}, by="ada")
    assert not await questions.answer("another", {"size": "L"}, by="ada")


async def test_nothing_is_fetched_to_hold_an_answer_against_a_schema() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        elsewhere = {"$ref": f"http://127.0.0.1:{port}/size.json"}
        questions = InProcessQuestions()
        settled = await questions.ask(replace(SIZE, schema={"properties": {"size": elsewhere}}))
        with pytest.raises(TurnError, match="nothing is fetched"):
            await questions.answer(SIZE.id, {"size": "S"}, by="ada")
    assert asked == []
    assert not settled.done()


async def test_each_sees_what_waits_at_addresses_that_it_may_claim() -> None:
    questions = InProcessQuestions()
    await questions.ask(SIZE)
    later = replace(SIZE, id="ask_2", address=Address("web", "shop", "bob"))
    await questions.ask(later)
    assert await questions.waiting(ADA) == [SIZE]
    assert await questions.waiting(BOB) == [later]
    assert await questions.waiting(Principal.owner()) == [SIZE, later]
    assert await questions.expire() == ()


async def test_whoever_ends_a_question_while_it_is_being_answered_hears_of_the_answer() -> None:
    begun, slow = asyncio.Event(), asyncio.Event()

    class Slow:
        async def write(self, work: Any) -> Any:
            begun.set()
            await slow.wait()
            return work(None)

    questions = InProcessQuestions(lambda: Slow())  # type: ignore[arg-type,return-value]
    settled = await questions.ask(SIZE)
    kept: list[Any] = []
    answering = asyncio.create_task(
        questions.answer(SIZE.id, {"size": "S"}, by="ada", also=kept.append)
    )
    await begun.wait()
    assert await questions.find(SIZE.id) is None
    assert not await questions.answer(SIZE.id, {"size": "L"}, by="bob")
    ending = asyncio.create_task(questions.end(SIZE.id, "withdrawn", "cancelled"))
    slow.set()
    assert await answering
    assert (await ending) == settled.result()
    assert (settled.result().by, kept) == ("ada", [None])


async def test_an_answer_that_was_handed_to_the_store_counts_though_its_giver_went_away() -> None:
    begun, slow = asyncio.Event(), asyncio.Event()

    class Slow:
        async def write(self, work: Any) -> Any:
            begun.set()
            await slow.wait()
            return work(None)

    questions = InProcessQuestions(lambda: Slow())  # type: ignore[arg-type,return-value]
    settled = await questions.ask(SIZE)
    kept: list[Any] = []
    answering = asyncio.create_task(
        questions.answer(SIZE.id, {"size": "S"}, by="ada", also=kept.append)
    )
    await begun.wait()
    answering.cancel()
    await asyncio.sleep(0)
    assert not await questions.answer(SIZE.id, {"size": "L"}, by="bob", also=kept.append)
    slow.set()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert (settled.result().by, kept) == ("ada", [None])


async def test_a_question_whose_asker_gave_up_waits_for_nobody() -> None:
    questions = InProcessQuestions()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(await questions.ask(SIZE), 0)
    assert await questions.find(SIZE.id) is None
    assert await questions.waiting(ADA) == []
    kept: list[Any] = []
    assert not await questions.answer(SIZE.id, {"size": "S"}, by="ada", also=kept.append)
    assert kept == []
    ended = await questions.end(SIZE.id, "expired", "too late")
    assert (ended.state, ended.why) == ("expired", "too late")


class Sizes(OperationModel):
    """The sizes that were told."""

    sizes: list[str]


class Tailor:
    """A third party's plugin that asks a form, and acts on what is answered."""

    name = "tailor"

    def __init__(self) -> None:
        self.sizes: list[str] = []
        self.asked = asyncio.Event()

    async def ask(self, host: Host, **more: Any) -> None:
        waits = await host[QUESTIONS].ask(replace(SIZE, **more))
        self.asked.set()
        settled = await waits
        if settled.state == "answered":
            self.sizes.append(settled.value["size"])

    @hookimpl
    def list_operations(self, host: Host) -> list[Operation[Any, Any]]:
        async def sizes(_: Invocation, __: Empty) -> Sizes:
            return Sizes(sizes=self.sizes)

        return [
            Operation(
                name="tailor.sizes",
                summary="List the sizes that were told.",
                params=Empty,
                result=Sizes,
                handler=sizes,
                scope="read",
            )
        ]


@pytest.mark.parametrize("builtin", [(), ("storage",), ("storage", "policy")])
async def test_a_plugin_asks_questions_of_its_own_with_a_store_and_without(
    builtin: tuple[str, ...], tmp_path: Path
) -> None:
    plugin = Tailor()
    made = gateway(plugin, home=tmp_path)
    if builtin:
        from hookgate import Gateway

        made = Gateway(made.settings, builtin=builtin, plugins=[plugin])
    async with made as gate:
        questions = gate.host[QUESTIONS]
        asking = asyncio.create_task(plugin.ask(gate.host))
        await plugin.asked.wait()
        assert await questions.waiting(BOB) == []
        assert await questions.answer(SIZE.id, {"size": "L"}, by="ada")
        await asking
        assert plugin.sizes == ["L"]
        if "policy" in builtin:
            # It is no tool call: the inbox of approvals neither shows nor takes it.
            plugin.asked.clear()
            asking = asyncio.create_task(plugin.ask(gate.host, id="ask_3"))
            await plugin.asked.wait()
            assert [one.id for one in await questions.waiting(ADA)] == ["ask_3"]
            operation = gate.host.operations["approval.list"]
            owner = Invocation(host=gate.host, principal=Principal.owner())
            assert (await operation.handler(owner, Empty())).approvals == []
            asking.cancel()

"""Kinds of capabilities and of blocks that a plugin brings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.script import Script, Scripted, blocks, gateway, say

from hookgate import Block, Capability, ContextBuilder, Gateway, Settings, Turn, hookimpl
from hookgate.catalogue import kind_label, kind_order
from hookgate.core.domain.descriptors import KINDS
from hookgate.core.domain.errors import HookgateError
from hookgate.core.host import QuarterTokens


class Runbooks:
    """A plugin whose capabilities are of a kind of its own."""

    name = "runbooks"

    @hookimpl
    def list_capabilities(self) -> list[Capability]:
        return [
            Capability(
                id="runbook:restart-database",
                kind="runbook",
                name="restart-database",
                description="How to restart the database safely.",
                whose="own",
            )
        ]

    @hookimpl
    def before_context_build(self, turn: Turn, context: ContextBuilder) -> None:
        context.add(Block(kind="runbook", text="Never restart on Fridays."))


async def test_capability_of_a_kind_of_its_own_is_found_listed_and_withheld(tmp_path: Path) -> None:
    class Withholds:
        name = "withholds"
        on = False

        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> set[str]:
            return {"runbook:restart-database"} if self.on else set()

    settings = Settings.model_validate(
        {
            "home": tmp_path,
            "plugins": {"entry_points": False},
            "plugin": {"embedding": {"embedder": "none"}},
        }
    )
    withholds = Withholds()
    async with Gateway(settings, plugins=[Runbooks(), withholds]) as gate:
        question = "How do I restart the database safely?"
        call = f'/call discover_capabilities {{"query": "{question}", "kind": "runbook"}}'
        found = (await gate.chat(call)).calls[0].result
        assert "restart-database (runbook)" in found.text or "restart-database" in found.text
        listed = (await gate.chat('/call list_capabilities {"kind": "runbook"}')).calls[0].result
        assert "restart-database" in listed.text
        withholds.on = True
        assert "restart-database" not in (await gate.chat(call)).calls[0].result.text


async def test_block_of_a_kind_of_its_own_reaches_the_model() -> None:
    script = Script(say("ok"))
    async with gateway(Scripted(script), Runbooks()) as gate:
        await gate.chat("go")
    (piece,) = blocks(script.requests[0])
    assert (piece.text, piece.source) == ("Never restart on Fridays.", "runbooks/runbook")


def test_floor_and_cap_hold_for_any_kind() -> None:
    builder = ContextBuilder(
        budget=100, counter=QuarterTokens(), floors={"runbook": 60}, caps={"notes": 10}
    )
    for kind in ("cards", "runbook", "notes"):
        builder.add(Block(kind=kind, text=kind[0] * 200))
    packed = builder.pack(())
    assert packed.by_kind == {"runbook": 50, "cards": 50}


@pytest.mark.parametrize("kind", ["", "Run books", "9lives", "a" * 33, None])
def test_kind_that_is_no_name_is_refused(kind: str) -> None:
    builder = ContextBuilder(budget=100, counter=QuarterTokens())
    with pytest.raises(ValueError, match="a word of your own"):
        builder.add(Block(kind=kind, text="x"))


def test_misspelt_kind_of_a_block_is_refused_with_the_right_one() -> None:
    builder = ContextBuilder(budget=100, counter=QuarterTokens())
    with pytest.raises(ValueError, match="did you mean 'cards'"):
        builder.add(Block(kind="card", text="x"))


async def test_capability_whose_kind_is_no_name_is_refused() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        row = Capability(id="x", kind="Run books", name="x")
        with pytest.raises(HookgateError, match="found the kind 'Run books'"):
            gate.host.capabilities.apply("acme", [row])


def test_known_kinds_come_first_and_every_kind_has_a_name_for_many() -> None:
    assert sorted(["zebra", "prompt", "ape", "tool"], key=kind_order) == [
        *("tool", "prompt", "ape", "zebra")
    ]
    assert kind_label("connector") == KINDS["connector"] == "Connectors"
    assert kind_label("run_book") == "Run books"

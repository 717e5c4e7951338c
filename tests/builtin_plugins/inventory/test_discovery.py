"""Models find what this gateway can use: never what another runtime has for itself alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builtin_plugins.inventory.acme import Acme, record, running
from tests.support.script import Allow, Script, Scripted, call, say, until

MAIL = record("zebra-mail", description="Read and send letters to the zebra enclosure.")
ADA = record("zebra-feed", kind="skill", agent_id="ada", source="filesystem-skill-md",
             description="Feed a zebra: how much hay, and when.")  # fmt: skip
BUILTIN = ("control", "storage", "sanitizer", "discovery", "inventory")
SECTIONS: dict[str, Any] = {"plugin": {"discovery": {"watch": False, "floor": 0.05}}}


def searching(times: int) -> Scripted:
    steps = [
        step
        for number in range(times)
        for step in (
            call((f"c{number}", "discover_capabilities", {"query": "zebra mail letters"})),
            say("done"),
        )
    ]
    return Scripted(Script(*steps))


async def test_an_installed_skill_is_found_and_comes_back_without_a_restart(
    tmp_path: Path,
) -> None:
    house = [searching(4), Allow()]
    async with running(home=tmp_path, plugins=house, builtin=BUILTIN, **SECTIONS) as gate:
        texts = {"content": "Put hay into it.", "description": "Drafts letters to the zebra."}
        installed = (await gate.ask("install", key="zebra-letters", **texts)).record.id

        async def found() -> set[str]:
            turn = await gate.gate.chat("zebra")
            assert turn.snapshot.tools.keys() == {"discover_capabilities", "read_capability"}
            return {row["id"] for row in json.loads(turn.calls[0].result.text)["capabilities"]}

        first = await found()
        await gate.ask("disable", id=installed)
        without = await found()
        await gate.ask("enable", id=installed)
        again = await found()

    assert installed in first
    assert installed not in without
    assert installed in again


async def test_what_other_runtimes_have_is_listed_and_offered_to_no_model(tmp_path: Path) -> None:
    house = [searching(1), Allow()]
    acme = Acme(MAIL, ADA)
    async with running(acme, home=tmp_path, plugins=house, builtin=BUILTIN, **SECTIONS) as gate:
        listed = await gate.ids(runtime="acme")
        turn = await gate.gate.chat("write a letter to the zebra")
        rows = gate.host.capabilities.view()

    assert set(listed) == {MAIL.id, ADA.id}
    assert not {MAIL.id, ADA.id} & set(rows)
    assert "acme" not in turn.calls[0].result.text


async def test_what_has_not_changed_makes_no_new_version(tmp_path: Path) -> None:
    async with running(Acme(MAIL, ADA), home=tmp_path) as gate:
        await gate.ask("install", key="zebra-letters", content="Put hay into it.")
        before = gate.host.capabilities.version
        await gate.listed()

        assert gate.host.capabilities.version == before


async def test_runtimes_are_read_by_themselves(tmp_path: Path) -> None:
    acme = Acme(MAIL)
    async with running(acme, home=tmp_path, inventory={"refresh_seconds": 0.01}) as gate:
        await until(lambda: acme.reads > 1)
        acme.records[ADA.id] = ADA
        seen = acme.reads + 1
        await until(lambda: acme.reads > seen)
        acme.wrong = "raise"
        await until(lambda: "inventory: acme" in gate.host.degraded)

        kept = {one.id for one in (await gate.ask("list", runtime="acme")).records}
        assert kept == {MAIL.id, ADA.id}, "last good records are shown on"

"""What other runtimes have is found by models, as long as it is not disabled."""

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


async def test_what_is_disabled_is_not_found_and_comes_back_without_a_restart(
    tmp_path: Path,
) -> None:
    acme = Acme(MAIL, ADA)
    house = [searching(4), Allow()]
    async with running(acme, home=tmp_path, plugins=house, builtin=BUILTIN, **SECTIONS) as gate:
        await gate.listed()

        async def found() -> dict[str, Any]:
            turn = await gate.gate.chat("zebra")
            text = turn.calls[0].result.text
            rows = {row["id"]: row for row in json.loads(text)["capabilities"]}
            assert turn.snapshot.tools.keys() == {"discover_capabilities", "read_capability"}
            return rows

        first = await found()
        await gate.ask("disable", id=MAIL.id)
        without = await found()
        await gate.ask("enable", id=MAIL.id)
        again = await found()
        del acme.records[MAIL.id]
        await gate.listed()
        gone = await found()

    assert first[MAIL.id]["name"] == "acme/zebra-mail"
    assert first[MAIL.id]["category"] == "acme"
    assert MAIL.id not in without
    assert MAIL.id in again
    assert MAIL.id not in gone


async def test_models_hear_of_other_runtimes_only_where_the_settings_say_so(tmp_path: Path) -> None:
    for discovery, expected in ((True, {MAIL.id, ADA.id}), (False, set())):
        section = {"discovery": discovery}
        async with running(Acme(MAIL, ADA), home=tmp_path, inventory=section) as gate:
            await gate.listed()
            rows = gate.host.capabilities.view()

        assert set(rows) == expected
    assert {row.whose for row in rows.values()} <= {"foreign"}


async def test_what_has_not_changed_makes_no_new_version(tmp_path: Path) -> None:
    async with running(Acme(MAIL, ADA), home=tmp_path) as gate:
        await gate.listed()
        before = gate.host.capabilities.version
        await gate.listed()

        assert gate.host.capabilities.version == before


async def test_runtimes_are_read_by_themselves(tmp_path: Path) -> None:
    acme = Acme(MAIL)
    async with running(acme, home=tmp_path, inventory={"refresh_seconds": 0.01}) as gate:
        await until(lambda: MAIL.id in gate.host.capabilities.view())
        acme.records[ADA.id] = ADA
        await until(lambda: ADA.id in gate.host.capabilities.view())
        acme.wrong = "raise"
        await until(lambda: "inventory: acme" in gate.host.degraded)

        assert ADA.id in gate.host.capabilities.view(), "last good records are found on"

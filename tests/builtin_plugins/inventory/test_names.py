"""What a person types in the place of an id, and what lists show."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.builtin_plugins.inventory.acme import NATIVE, OWNER, Acme, record, running
from tests.builtin_plugins.inventory.test_native import AGENTS, ECHO, plugins

from hookgate import Invocation, Principal, TurnError, UnknownCapabilityError
from hookgate.builtin_plugins.inventory.views import records

DOCS = record("docs:latest", name="docs")
SHOP = record("/srv/shop/.acme:db", name="db")
OTHER = record("/srv/books/.acme:db", name="db")
ADA = record("mail", agent_id="ada")
MAIL = record("mail")


def shown_of(listed: Any) -> list[str]:
    """Return the lines that a wide terminal shows of a list."""
    console = Console(width=200, file=StringIO(), record=True)
    for part in records(listed.model_dump(mode="json")):
        console.print(part)
    return console.export_text().splitlines()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (DOCS.id, DOCS),
        ("acme/docs:latest", DOCS),
        ("acme/docs", DOCS),
        ("latest", DOCS),
        ("shop/.acme:db", SHOP),
        ("acme/mail", MAIL),
        ("acme/ada/mail", ADA),
    ],
)
async def test_what_ends_no_other_id_can_be_typed(text: str, meant: Any, tmp_path: Path) -> None:
    async with running(Acme(DOCS, SHOP, OTHER, ADA, MAIL), home=tmp_path) as gate:
        shown = (await gate.ask("show", id=text)).record
        off = (await gate.ask("disable", id=text)).record

    assert (shown.id, off.id, off.status) == (meant.id, meant.id, "disabled")


async def test_what_can_be_several_is_refused_and_these_are_named(tmp_path: Path) -> None:
    acme = Acme(DOCS, SHOP, OTHER, ADA, MAIL)
    async with running(acme, home=tmp_path, **AGENTS) as gate:
        with pytest.raises(TurnError, match=r"can be acme//srv/books.*, acme//srv/shop"):
            await gate.ask("disable", id="acme/db")
        with pytest.raises(TurnError, match="'mail' can be acme/ada/mail, acme/mail"):
            await gate.ask("disable", id="mail")
        with pytest.raises(UnknownCapabilityError, match="is called") as none:
            await gate.ask("disable", id="acme/dosc")
        # One who may not speak to an agent hears nothing of what it has.
        mine = Principal(id="bob", scopes=frozenset({"operate", "read"}), agents=("main",))
        bobs = (await gate.ask("show", mine, id="mail")).record
        with pytest.raises(UnknownCapabilityError) as hidden:
            await gate.ask("show", mine, id="acme/ada/mali")

    assert acme.changes == []
    assert "acme/docs" in none.value.data["action"]
    assert bobs.id == MAIL.id
    assert "ada" not in hidden.value.data["action"]


async def test_lists_show_what_can_be_typed_and_why_something_cannot_be_used(
    tmp_path: Path,
) -> None:
    waits = record("git", status="manageable-but-pending-auth", hint="run `acme login`")
    gone = record("gone", available=False, status="unavailable", diagnostics=("no program",))
    async with running(Acme(DOCS, SHOP, OTHER, ADA, waits, gone), home=tmp_path) as gate:
        listed = await gate.listed(runtime="acme")
        few = await gate.listed(runtime="acme", text="docs")

    assert [row.short for row in listed.records] == [
        "acme/ada/mail", "acme//srv/books/.acme:db", "acme//srv/shop/.acme:db", "acme/docs",
        "acme/git", "acme/gone",
    ]  # fmt: skip
    lines = shown_of(listed)
    (mail,) = (line.split() for line in lines if "acme/ada/mail" in line)
    (git,) = (line for line in lines if "acme/git" in line)
    assert mail[1:5] == ["mail", "connector", "ada", "ready"]
    assert "pending auth" in git
    assert "run `acme login`" in git
    assert any("acme/gone" in line and "no program" in line for line in lines)
    # Nothing of it is an agent's: there is no such column.
    assert not any("agent" in line for line in shown_of(few))


async def test_the_list_of_tools_shows_what_is_off(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:

        async def off() -> dict[str, str]:
            operation = gate.host.operations["tools.list"]
            rows = await operation.handler(
                Invocation(host=gate.host, principal=OWNER), operation.params.model_validate({})
            )
            return {row.name: row.off for row in rows.tools if row.off}

        before = await off()
        await gate.ask("disable", id="native/echo")
        await gate.ask("disable", id="native/shout", agent="ada")
        between = await off()
        await gate.ask("enable", id=ECHO)

        assert (before, between) == ({}, {"echo": "everybody", "shout": "ada"})
        assert await off() == {"shout": "ada"}
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:
        assert await off() == {"shout": "ada"}, f"it is known before anybody asks for {NATIVE}"


async def test_a_key_that_only_ends_what_is_typed_decides_nothing(tmp_path: Path) -> None:
    """Whoever names a capability as another one is called does not get it switched instead."""
    real, other = record("git-hub", name="github"), record("hub", name="github")
    acme = Acme(real, other)
    async with running(acme, home=tmp_path, **AGENTS) as gate:
        with pytest.raises(TurnError, match="'acme/github' can be acme/git-hub, acme/hub"):
            await gate.ask("disable", id="acme/github")
    assert acme.changes == []


async def test_what_one_may_not_see_hides_nothing_that_one_may(tmp_path: Path) -> None:
    hidden, seen = record("mail", agent_id="ada"), record("box/mail")
    async with running(Acme(hidden, seen), home=tmp_path, **AGENTS) as gate:
        mine = Principal(id="bob", scopes=frozenset({"operate", "read"}), agents=("main",))
        shown = (await gate.ask("show", mine, id="mail")).record
    assert shown.id == seen.id

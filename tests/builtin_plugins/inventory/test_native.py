"""The gateway's own tools and skills: what is read of them, and what is switched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.inventory.acme import NATIVE, OWNER, Acme, Running, record, running
from tests.support.script import Allow, Script, Scripted, Tools, call, echo_tool, say

from hookgate import (
    Flags,
    Invocation,
    TurnError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)
from hookgate.core.domain.descriptors import Capability
from hookgate.hookspecs import hookimpl

ECHO, SHOUT = f"{NATIVE}:tool:echo", f"{NATIVE}:tool:shout"
AGENTS = {"agents": {"main": {"model": "script/one"}, "ada": {"model": "script/one"}}}
ADA_ECHO = "native:native:agent:ada:tool:echo"


class Skills:
    """Brings a skill, a connector and a capability of a kind that the inventory has not."""

    name = "skills"

    @hookimpl
    def list_capabilities(self) -> list[Capability]:
        return [
            Capability(id="skill:brew", kind="skill", name="brew", description="Brew tea."),
            Capability(id="acme:own", kind="skill", name="own"),
            Capability(id="connector:mail", kind="connector", name="mail", available=False,
                       required_secrets=("mail_key",), required_tools=("post",)),
            Capability(id="runbook:fire", kind="runbook", name="fire"),
        ]  # fmt: skip


def plugins(*steps: Any) -> list[object]:
    """Return a house with two tools and some skills, and a model that follows `steps`."""
    tools = Tools(echo_tool(), echo_tool("shout", flags=Flags(sends_externally=True)))
    return [tools, Skills(), Scripted(Script(*steps or (say("fine"),))), Allow()]


def echoed(text: str = "hello") -> tuple[Any, Any]:
    return call(("c1", "echo", {"text": text})), say("done")


async def test_what_the_gateway_has_is_read(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins()) as gate:
        rows = {one.id: one for one in (await gate.listed()).records}

    echo, shout, brew = rows[ECHO], rows[SHOUT], rows[f"{NATIVE}:skill:brew"]
    assert (echo.kind, echo.source, echo.manageability, echo.status, echo.risk) == (
        "tool", "brokered-mcp", "managed", "ready", "low",
    )  # fmt: skip
    assert (echo.description, echo.provenance) == ("Says echo.", "plugin some_tools")
    assert shout.risk == "medium"
    assert (brew.source, brew.risk) == ("filesystem-skill-md", "unknown")
    assert f"{NATIVE}:skill:acme:own" in rows
    mail = rows[f"{NATIVE}:connector:mail"]
    assert (mail.available, mail.status, mail.buttons) == (False, "unavailable", ())
    assert mail.diagnostics == ("the secret 'mail_key' is not set", "the tool 'post' is not there")
    assert not [one for one in rows if "fire" in one]


class Late(Acme):
    """A runtime, and a plugin whose tool comes only once the runtimes have been read."""

    name = "late"

    def __init__(self) -> None:
        super().__init__(name="late")
        self.was_read = asyncio.Event()

    async def read(self) -> Any:
        self.was_read.set()
        return await super().read()

    @hookimpl
    async def list_tools(self) -> list[Any]:
        await self.was_read.wait()
        return [echo_tool()]


async def test_what_came_after_a_read_of_the_start_is_there_for_whoever_asks(
    tmp_path: Path,
) -> None:
    late = Late()
    async with running(late, home=tmp_path, plugins=[late]) as gate:
        found = await gate.ask("list")

    assert ECHO in [one.id for one in found.records]


async def test_what_is_disabled_is_neither_offered_nor_callable_and_comes_back(
    tmp_path: Path,
) -> None:
    house = plugins(*echoed(), *echoed(), *echoed())
    async with running(home=tmp_path, plugins=house) as gate:
        off = (await gate.ask("disable", id=ECHO)).record
        without = await gate.gate.chat("say hello")
        on = (await gate.ask("enable", id=ECHO)).record
        with_it = await gate.gate.chat("say hello")

    assert (off.status, [one.action for one in off.buttons]) == ("disabled", ["enable"])
    assert "echo" not in without.offered
    assert without.calls[0].result.status != "done"
    assert (on.status, on.buttons[0].action) == ("ready", "disable")
    assert "echo" in with_it.offered
    assert with_it.calls[0].result.text == "hello"


async def test_what_is_disabled_during_a_turn_is_denied(tmp_path: Path) -> None:
    holder: list[Running] = []

    class Disables:
        name = "disables"

        @hookimpl
        async def before_model_call(self) -> None:
            await holder[0].ask("disable", id=ECHO)

    house = [*plugins(*echoed()), Disables()]
    async with running(home=tmp_path, plugins=house) as gate:
        holder.append(gate)
        turn = await gate.gate.chat("say hello")

    assert turn.calls[0].result.status == "denied"
    assert "the tool echo is disabled" in turn.calls[0].result.text


async def test_a_switch_touches_no_other_and_outlives_the_process(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:
        await gate.ask("disable", id=SHOUT)
        await gate.ask("disable", id=f"{NATIVE}:skill:brew")
        await gate.ask("disable", id=ECHO, agent="ada")
        await gate.ask("enable", id=SHOUT)
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:
        rows = {one.id: one.status for one in (await gate.listed()).records}
        withheld = {
            name: (await gate.gate.chat("hello", agent=name)).withheld for name in ("main", "ada")
        }

    assert rows[SHOUT] == rows[ECHO] == "ready"
    assert rows[f"{NATIVE}:skill:brew"] == rows[ADA_ECHO] == "disabled"
    assert "tool:echo" in withheld["ada"]
    assert "tool:echo" not in withheld["main"]
    assert "skill:brew" in withheld["main"]


async def test_for_one_agent_a_switch_of_its_own_counts_beside_that_of_all(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins(*echoed(), *echoed()), **AGENTS) as gate:
        made = (await gate.ask("disable", id=ECHO, agent="ada")).record
        refused = await gate.gate.chat("say hello", agent="ada")
        fine = await gate.gate.chat("say hello", agent="main")
        await gate.ask("disable", id=ECHO)
        enabled = (await gate.ask("enable", id=ADA_ECHO)).record
        still = await gate.gate.chat("hello", agent="ada")

    assert (made.id, made.scope, made.agent_id, made.status) == (
        ADA_ECHO, "agent", "ada", "disabled",
    )  # fmt: skip
    assert refused.calls[0].result.status != "done"
    assert fine.calls[0].result.status == "done"
    assert (enabled.status, enabled.diagnostics) == ("disabled", ("it is disabled for everybody",))
    assert "echo" not in still.offered


async def test_two_writers_at_once_both_count(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:
        wanted = [ECHO, SHOUT, f"{NATIVE}:skill:brew", f"{NATIVE}:skill:acme:own"]
        await asyncio.gather(*(gate.ask("disable", id=one) for one in wanted))
        off = await gate.ids(status="disabled")

    assert off == sorted(wanted)


# -- skills that were installed ------------------------------------------------------


async def test_an_installed_skill_is_found_by_its_agent_alone(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins(), **AGENTS) as gate:
        made = (
            await gate.ask("install", key="tea", agent="ada", content="Warm the pot.",
                           description="Make tea.", runtime="openclaw")
        ).record  # fmt: skip
        turns = {name: await gate.gate.chat("hello", agent=name) for name in ("main", "ada")}
        row = turns["ada"].snapshot.capabilities.get(made.id)
        everybodys = (await gate.ask("install", key="milk", content="Milk last.")).record

    assert made.id == "native:native:agent:ada:skill:tea"
    assert (made.source, made.runtime, made.manageability) == ("curated-skill", "native", "managed")
    assert row is not None
    assert row.load is not None
    assert (row.name, row.description, row.whose) == ("tea", "Make tea.", "foreign")
    assert row.load().content == "Warm the pot."
    assert made.id in turns["main"].withheld
    assert made.id not in turns["ada"].withheld
    assert everybodys.scope == "global"


async def test_an_installed_skill_is_switched_off_and_on_and_installed_anew(tmp_path: Path) -> None:
    def there(gate: Running) -> str | None:
        row = gate.host.capabilities.view().get(f"{NATIVE}:skill:tea")
        return None if row is None or row.load is None else row.load().content

    async with running(home=tmp_path, plugins=plugins()) as gate:
        await gate.ask("install", key="tea", content="Warm the pot.")
        assert there(gate) == "Warm the pot."
        await gate.ask("disable", id=f"{NATIVE}:skill:tea")
        assert there(gate) is None
        await gate.ask("enable", id=f"{NATIVE}:skill:tea")
        assert there(gate) == "Warm the pot."
        await gate.ask("install", key="tea", content="Warm the cup.")
        assert there(gate) == "Warm the cup."
        await gate.gate.reload()
        assert there(gate) == "Warm the cup."


async def test_the_runtime_of_an_install_is_that_of_its_agent(tmp_path: Path) -> None:
    acme = Acme(record("built-in", agent_id="grace"))
    async with running(acme, home=tmp_path, plugins=plugins()) as gate:
        made = (
            await gate.ask("install", key="tea", agent="grace", content="x", runtime="native")
        ).record
        row = gate.host.capabilities.view().get(made.id)

    assert (made.id, made.runtime) == ("native:acme:agent:grace:skill:tea", "acme")
    assert (made.manageability, made.buttons[0].action) == ("managed", "disable")
    assert row is None, "no agent of the gateway has it"


@pytest.mark.parametrize(
    ("params", "error", "said"),
    [
        ({"key": "tea"}, UnsupportedCapabilityWriteError, "a skill without content"),
        ({"key": "t", "kind": "connector", "url": "https://a.example"},
         UnsupportedCapabilityWriteError, "found a connector"),
        ({"key": "brew", "content": "x"}, UnsupportedCapabilityWriteError, "is there already"),
        ({"key": "tea", "content": "x", "agent": "nobody"}, UnknownCapabilityError, "'nobody'"),
        ({"key": "tea", "content": "x", "via": "nobody"}, UnknownCapabilityError, "'nobody'"),
        ({"key": "tea", "content": "x", "agent": "twin"}, TurnError, "acme, other have an agent"),
    ],
)  # fmt: skip
async def test_what_the_gateway_cannot_install_is_refused(
    params: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    twins = [Acme(record("x", name, agent_id="twin"), name=name) for name in ("acme", "other")]
    async with running(*twins, home=tmp_path, plugins=plugins()) as gate:
        with pytest.raises(error, match=said):
            await gate.ask("install", **params)


# -- tools in quarantine -------------------------------------------------------------


async def test_a_tool_in_quarantine_is_approved_by_its_digest(tmp_path: Path) -> None:
    builtin = ("control", "storage", "policy", "sanitizer", "inventory")
    _, shout = plugins()[0].tools  # type: ignore[attr-defined]
    changed = Tools(echo_tool(idempotent=True), shout)
    async with running(home=tmp_path, plugins=plugins(), builtin=builtin) as gate:
        # What a tool was is kept behind the start, and before a turn at the latest.
        await gate.gate.chat("hello")
        assert (await gate.ask("show", id=ECHO)).record.status == "ready"
    house = [changed, *plugins()[1:]]
    async with running(home=tmp_path, plugins=house, builtin=builtin) as gate:
        await gate.gate.chat("hello")
        await gate.listed()
        waiting = (await gate.ask("show", id=ECHO)).record
        with pytest.raises(UnsupportedCapabilityWriteError, match="does not wait for approval"):
            await gate.ask("approve", id=SHOUT, digest="0" * 64)
        with pytest.raises(TurnError):
            await gate.ask("approve", id=ECHO, digest="0" * 64)
        assert (await gate.ask("show", id=ECHO)).record.status == "unavailable"
        changes = gate.host.operations["tools.changes"]
        invocation = Invocation(host=gate.host, principal=OWNER)
        rows = (await changes.handler(invocation, changes.params())).tools
        approved = (await gate.ask("approve", id=ECHO, digest=rows[0].digest)).record

    assert waiting.status == "unavailable"
    assert waiting.diagnostics[0].startswith("it waits for approval: ")
    assert waiting.buttons == ()
    assert approved.status == "ready"


async def test_without_policy_nobody_keeps_digests(tmp_path: Path) -> None:
    async with running(home=tmp_path, plugins=plugins()) as gate:
        with pytest.raises(UnsupportedCapabilityWriteError, match="policy does not run"):
            await gate.ask("approve", id=ECHO, digest="0" * 64)

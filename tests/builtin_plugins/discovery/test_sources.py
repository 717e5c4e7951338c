from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.discovery.folders import manifest, skill, write
from tests.support.script import Script, Scripted, Tools, echo_tool, gateway, say

from hookgate import Gateway
from hookgate.builtin_plugins.discovery.sources.collection import Collected, Sources
from hookgate.core.domain.descriptors import Capability
from hookgate.core.host import Host
from hookgate.hookspecs import hookimpl


class Files:
    """A plugin of nothing but sources."""

    name = "discovery"

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    @hookimpl
    async def list_capabilities(self, host: Any) -> Any:
        return (await self.sources.refresh(host)).rows


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "capabilities"
    folder.mkdir()
    return folder


def sources_of(place: Path, **more: Any) -> Sources:
    alone = place.parent / "nowhere"
    return Sources(
        **{
            "dirs": [place],
            "environ": {},
            "user_home": alone,
            "workspace": alone,
            "debounce_ms": 50,
            **more,
        }
    )


@asynccontextmanager
async def opened(
    place: Path, *earlier: object, tools: tuple[str, ...] = (), **more: Any
) -> AsyncIterator[tuple[Gateway, Sources]]:
    sources = sources_of(place, **more)
    made = [echo_tool(name) for name in tools]
    async with gateway(Scripted(Script(say("ok"))), *earlier, Files(sources), Tools(*made)) as gate:
        yield gate, sources


async def shown(gate: Gateway) -> dict[str, Capability]:
    """Return what a turn would see, but for what comes with hookgate."""
    turn = await gate.chat("hi")
    return {row.id: row for row in turn.snapshot.capabilities}


# -- what is available ---------------------------------------------------------------


async def test_a_skill_is_available_where_all_that_it_requires_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_IS_THERE_KEY", "some-secret-value")
    monkeypatch.delenv("TEST_IS_MISSING_KEY", raising=False)
    manifest(place / "plain")
    manifest(place / "keyed", "requiredSecrets: [TEST_IS_THERE_KEY]\n")
    manifest(place / "locked", "requiredSecrets: [TEST_IS_MISSING_KEY]\n")
    manifest(place / "tooled", "requiredTools: [echo]\n")
    manifest(place / "toolless", "requiredTools: [echo, gone]\n")
    manifest(place / "off")
    manifest(place / "nosy", "requiredSecrets: [HOME]\n")
    async with opened(place, tools=("echo",), disabled=["skill:off"]) as (gate, sources):
        rows = await shown(gate)
        reasons = sources.found.reasons
    assert [name for name in ("plain", "keyed", "tooled") if rows[f"skill:{name}"].available] == [
        "plain",
        "keyed",
        "tooled",
    ]
    for name, why in {
        "locked": "the secret TEST_IS_MISSING_KEY is not set",
        "toolless": "the tool gone is not registered",
        "off": "the settings disable it",
        "nosy": "HOME is no secret but an ordinary variable",
    }.items():
        assert not rows[f"skill:{name}"].available
        assert reasons[f"skill:{name}"] == (why,)


async def test_what_a_required_tool_requires_counts_too(place: Path) -> None:
    manifest(place / "one", "requiredTools: [two]\n", kind="tool")
    manifest(place / "two", "requiredTools: [one, three]\n", kind="tool")
    manifest(place / "round", "requiredTools: [one]\n")
    async with opened(place, tools=("one", "two")) as (gate, sources):
        rows = await shown(gate)
        assert not rows["skill:round"].available
        assert "the tool three is not registered" in sources.found.reasons["skill:round"][0]
        gate.host.tools.apply("late", [echo_tool("three")])
        await gate.reload()
        assert (await shown(gate))["skill:round"].available


async def test_a_described_tool_that_nobody_runs_is_not_available(place: Path) -> None:
    manifest(place / "ghost", kind="tool")
    manifest(place / "pigeon", kind="channel")
    async with opened(place) as (gate, sources):
        rows = await shown(gate)
        assert not rows["tool:ghost"].available
        assert not rows["channel:pigeon"].available
        assert "a manifest runs nothing" in sources.found.reasons["tool:ghost"][0]


async def test_a_manifest_enriches_a_tool_and_cannot_change_what_it_does(place: Path) -> None:
    manifest(
        place / "echo",
        "displayName: Say Again\ncategory: text\ntags: [repeat]\n"
        "inputSchema: {type: object, properties: {lie: {}}}\n"
        "flags: {executesPrivileged: false}\n",
        kind="tool",
        SKILL_md="Use it twice.",
    )
    async with opened(place, tools=("echo",)) as (gate, _):
        row = (await shown(gate))["tool:echo"]
        tool = gate.host.tools.view()["echo"]
    assert (row.display_name, row.description) == ("Say Again", "Does echo.")
    assert row.available
    assert row.flags == tool.flags
    assert row.load is not None
    assert row.load().schema == tool.schema
    assert row.load().content == "Use it twice."


async def test_a_tool_can_be_switched_off_without_a_manifest(place: Path) -> None:
    async with opened(place, tools=("echo",), disabled=["tool:echo"]) as (gate, _):
        row = (await shown(gate))["tool:echo"]
        assert not row.available
        assert row.description == echo_tool("echo").description


async def test_a_manifest_about_what_another_plugin_lists_is_merged_too(place: Path) -> None:
    class Waits:
        name = "waits"

        @hookimpl
        def list_capabilities(self, host: Any) -> list[Capability]:
            why = "Not available: nobody set it."
            return [
                Capability(id="tool:w", kind="tool", name="w", description=why, available=False)
            ]

    manifest(place / "w", "category: web\n", kind="tool")
    async with opened(place, Waits()) as (gate, _):
        row = (await shown(gate))["tool:w"]
        assert (row.description, row.category) == ("Not available: nobody set it.", "web")
        assert gate.host.degraded == {}


# -- what is wrong -------------------------------------------------------------------


async def test_bad_files_are_said_in_the_status_until_they_are_mended(place: Path) -> None:
    bad = manifest(place / "bad", "tags: 1\n")
    manifest(place / "good")
    async with opened(place) as (gate, sources):
        assert str(bad) in gate.host.degraded["capabilities"]
        assert "skill:good" in gate.host.capabilities.view()
        manifest(place / "bad")
        await gate.reload()
        assert gate.host.degraded == {}
        assert "skill:bad" in gate.host.capabilities.view()
        assert sources.found.problems == ()


async def test_an_id_of_another_plugin_is_left_out_and_said_and_does_not_stop_a_reload(
    place: Path,
) -> None:
    class Other:
        name = "other"

        @hookimpl
        def list_capabilities(self, host: Any) -> list[Capability]:
            return [Capability(id="skill:a", kind="skill", name="a", source_ref="other")]

    path = manifest(place / "a")
    async with opened(place, Other()) as (gate, _):
        assert "capability skill:a of discovery" in gate.host.degraded
        await gate.reload()
        assert gate.host.capabilities.view()["skill:a"].source_ref == "other"
        assert str(path) in gate.host.degraded["capability skill:a of discovery"]
        path.unlink()
        await gate.reload()
        assert gate.host.degraded == {}


# -- extensions ----------------------------------------------------------------------


async def test_a_catalogue_brings_extensions_and_a_manifest_comes_before_it(
    place: Path, tmp_path: Path
) -> None:
    listed = write(
        tmp_path / "catalogue.toml",
        '[[extensions]]\nname = "gif"\ndescription = "Pictures."\nrequired_tools = ["gone"]\n'
        '[[extensions]]\nname = "off"\ndescription = "Later."\navailable = false\n'
        '[[extensions]]\nname = "own"\ndescription = "Passed over."\n',
    )
    manifest(place / "own", kind="extension")
    async with opened(place, catalogue=listed) as (gate, sources):
        rows = await shown(gate)
        assert not rows["extension:gif"].available
        assert not rows["extension:off"].available
        assert rows["extension:own"].description == "Does own."
        assert sources.found.reasons["extension:off"] == ("it is declared as not available",)
        (problem,) = sources.found.problems
        assert "which a manifest has already" in str(problem)


# -- hot reload ----------------------------------------------------------------------


class Told:
    """What a watcher was told, one after the other."""

    def __init__(self) -> None:
        self.inventories: asyncio.Queue[Collected] = asyncio.Queue()

    def __call__(self, inventory: Collected) -> None:
        self.inventories.put_nowait(inventory)

    async def until(self, wanted: set[str]) -> Collected:
        """Wait for an inventory whose skills are `wanted`, but for those of hookgate."""
        while True:
            inventory = await self.inventories.get()
            if wanted == {row.id for row in inventory.rows if "ours" in row.tags}:
                return inventory


@asynccontextmanager
async def watching(gate: Gateway, sources: Sources) -> AsyncIterator[Told]:
    told, host, publish = Told(), gate.host, sources.publish

    def published(host: Host, before: Collected) -> None:
        publish(host, before)
        told(sources.found)

    sources.publish = published  # type: ignore[method-assign]  # this one object alone
    task = asyncio.create_task(sources.watch(host, host.tools, host.channels))
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


OURS = "metadata: {tags: ours}\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgate.kit.content.watch.LOOK_MS", 100)


async def test_new_changed_and_deleted_files_reach_the_next_turn(place: Path) -> None:
    async with opened(place) as (gate, sources), watching(gate, sources) as told:
        path = skill(place / "a", OURS)
        await told.until({"skill:a"})
        assert "skill:a" in await shown(gate)
        skill(place / "a", OURS + "license: MIT\n", body="Changed.")
        inventory = await told.until({"skill:a"})
        (row,) = [row for row in inventory.rows if row.id == "skill:a"]
        assert row.load is not None
        assert row.load().content == "Changed."
        path.unlink()
        await told.until(set())
        assert "skill:a" not in await shown(gate)


async def test_a_tool_that_comes_makes_available_what_waited_for_it(place: Path) -> None:
    skill(place / "a", "metadata: {tags: ours, requires: late}\n")
    async with opened(place) as (gate, sources), watching(gate, sources) as told:
        assert not (await shown(gate))["skill:a"].available
        gate.host.tools.apply("late", [echo_tool("late")])
        inventory = await told.until({"skill:a"})
        assert "skill:a" not in inventory.reasons
        assert (await shown(gate))["skill:a"].available


async def test_nobody_is_told_where_nothing_has_changed(place: Path) -> None:
    skill(place / "a", OURS)
    async with opened(place) as (gate, sources), watching(gate, sources) as told:
        write(place / "a" / "notes.txt", "no capability")
        version = gate.host.capabilities.version
        skill(place.parent / "b", OURS).parent.rename(place / "b")
        await told.until({"skill:a", "skill:b"})
        assert told.inventories.empty()
        assert gate.host.capabilities.version == version + 1


async def test_a_catalogue_that_changes_is_read_again(place: Path, tmp_path: Path) -> None:
    text = "- {name: x, description: One., tags: [ours]}\n"
    listed = write(tmp_path / "own" / "catalogue.yaml", text)
    async with (
        opened(place, catalogue=listed) as (gate, sources),
        watching(gate, sources) as told,
    ):
        write(listed, text + text.replace("x", "y"))
        await told.until({"extension:x", "extension:y"})

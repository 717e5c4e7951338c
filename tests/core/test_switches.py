"""Switches in the home folder: what there is without a store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.script import gateway

from hookgate import SWITCHES, Host, StoreError, Switch, hookimpl, set_switch
from hookgate.sessions import FileSwitches


async def test_of_two_who_have_seen_one_version_one_sets_it(tmp_path: Path) -> None:
    switches = FileSwitches(tmp_path)
    assert await switches.get("a") == Switch("a", None, 0)
    made = await asyncio.gather(*(switches.put("a", n, version=0) for n in range(5)))
    (winner,) = [one for one in made if one is not None]
    assert await FileSwitches(tmp_path).get("a") == winner
    assert winner.version == 1
    assert await switches.put("a", "late", version=0) is None
    assert await switches.put("a", "next", version=1) == Switch("a", "next", 2)
    assert (tmp_path / "switches.json").stat().st_mode & 0o777 == 0o600


async def test_what_is_made_of_a_switch_is_made_anew_where_somebody_was_faster(
    tmp_path: Path,
) -> None:
    switches = FileSwitches(tmp_path)

    def one_more(known: Switch) -> int:
        return (known.value or 0) + 1

    made = await asyncio.gather(*(set_switch(switches, "a", one_more) for _ in range(5)))
    assert sorted(one.value for one in made) == [1, 2, 3, 4, 5]
    assert await switches.get("a") == Switch("a", 5, 5)


async def test_who_watches_hears_of_that_switch_alone_until_it_is_undone(tmp_path: Path) -> None:
    switches, heard = FileSwitches(tmp_path), []
    undo = switches.watch("a", heard.append)
    await switches.put("a", 1, version=0)
    await switches.put("b", 1, version=0)
    await switches.put("a", "refused", version=0)
    undo()
    await switches.put("a", 2, version=1)
    assert heard == [Switch("a", 1, 1)]


async def test_a_damaged_file_is_an_error_that_says_what_to_do_and_stays_as_it_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "switches.json"
    path.write_text("{")
    switches = FileSwitches(tmp_path)
    with pytest.raises(StoreError, match=r"switches\.json cannot be read .* put a backup"):
        await switches.get("a")
    with pytest.raises(StoreError, match="cannot be read"):
        await switches.put("a", 1, version=0)
    assert path.read_text() == "{"


class Maintenance:
    """A third party's plugin with a switch of its own."""

    name = "maintenance"

    def __init__(self) -> None:
        self.closed = False
        self.host: Host | None = None

    @hookimpl
    def add_routes(self, host: Host) -> None:
        self.host = host
        host[SWITCHES].watch("acme.maintenance", self.switched)

    def switched(self, switch: Switch) -> None:
        self.closed = bool(switch.value)


async def test_a_plugin_has_switches_of_its_own_without_any_store(tmp_path: Path) -> None:
    plugin = Maintenance()
    async with gateway(plugin, home=tmp_path) as gate:
        switches = gate.host[SWITCHES]
        assert await switches.put("acme.maintenance", True, version=0)
        assert plugin.closed
    assert (await FileSwitches(tmp_path).get("acme.maintenance")).value is True


async def test_a_watcher_that_fails_keeps_nobody_else_from_hearing(tmp_path: Path) -> None:
    switches, heard = FileSwitches(tmp_path), list[Switch]()

    def fails(switch: Switch) -> None:
        raise RuntimeError("not me")

    switches.watch("a", fails)
    switches.watch("a", heard.append)
    assert await switches.put("a", 1, version=0) == Switch("a", 1, 1)
    assert heard == [Switch("a", 1, 1)]

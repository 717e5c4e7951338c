from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builtin_plugins.turns import TurnedClock, make_host

from hookgate.builtin_plugins.awareness.settings import AwarenessSettings
from hookgate.builtin_plugins.awareness.switch import (
    SWITCH,
    CardSwitch,
    Injected,
    TurnRecord,
    milliseconds,
)
from hookgate.core.domain.ports import CLOCK, SWITCHES
from hookgate.core.host import Host
from hookgate.sessions import FileSwitches

CARD = (Injected(id="a", score=1.0, tokens=100),)


def settings(**more: Any) -> AwarenessSettings:
    return AwarenessSettings.model_validate(more)


def moved(host: Host, *, hours: float) -> None:
    clock = host[CLOCK]
    assert isinstance(clock, TurnedClock)
    clock.advance(hours * 3600)


async def opened(home: Path, **more: Any) -> tuple[CardSwitch, Host]:
    host = make_host(home)
    control = CardSwitch(settings(**more))
    await control.open(host)
    return control, host


async def run(control: CardSwitch, host: Host, turns: int, with_card: int) -> None:
    for number in range(turns):
        injected = CARD if number < with_card else ()
        record = TurnRecord(
            timestamp=milliseconds(host), session="s", session_type="main", injected=injected
        )
        await control.record(host, record, {"turn": number})


async def test_too_many_turns_with_a_card_turn_cards_off_and_say_so_everywhere(
    tmp_path: Path,
) -> None:
    control, host = await opened(tmp_path)
    await run(control, host, 50, 15)
    await run(control, host, 1, 1)
    assert not control.on
    assert "16 of 51 turns had a card" in control.why_off
    assert "hookgate awareness enable" in host.degraded["awareness"]
    tripped = [record for record in host.metrics if record.name == "awareness.tripped"]
    assert [dict(record.fields) for record in tripped] == [
        {"rate": 0.3137, "turns": 51, "triggered": 16, "threshold": 0.3}
    ]
    await control.close()


async def test_30_percent_of_50_turns_are_not_too_many(tmp_path: Path) -> None:
    control, host = await opened(tmp_path)
    await run(control, host, 50, 15)
    assert control.on
    assert host.degraded == {}
    await control.close()


async def test_off_survives_a_restart_and_on_begins_a_window_afresh(tmp_path: Path) -> None:
    control, host = await opened(tmp_path)
    await run(control, host, 60, 60)
    await control.close()

    control, host = await opened(tmp_path)
    assert not control.on
    assert "awareness" in host.degraded
    moved(host, hours=1)
    await control.turn_on(host)
    assert control.on
    assert control.window(host).turns == 0
    assert host.degraded == {}
    await control.close()

    control, host = await opened(tmp_path)
    assert control.on
    assert control.window(host).turns == 0
    await control.close()


async def test_the_window_survives_a_restart(tmp_path: Path) -> None:
    control, host = await opened(tmp_path)
    await run(control, host, 49, 49)
    await control.close()
    control, host = await opened(tmp_path)
    assert control.window(host).triggered == 49
    await run(control, host, 1, 0)
    assert not control.on
    await control.close()


async def test_every_turn_is_recorded_with_a_card_and_without(tmp_path: Path) -> None:
    control, host = await opened(tmp_path)
    await run(control, host, 3, 1)
    await control.flush()
    lines = (tmp_path / "awareness" / "turns.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["totalTokens"] for line in lines] == [100, 0, 0]
    assert [len(one.injected) for one in control.records(host)] == [1, 0, 0]
    turns = [record for record in host.metrics if record.name == "awareness.turn"]
    assert [record.fields["totalTokens"] for record in turns] == [100, 0, 0]
    assert "timestamp" not in turns[0].fields
    await control.close()


async def test_a_switch_that_cannot_be_read_is_off_until_somebody_turns_it_on(
    tmp_path: Path,
) -> None:
    place = tmp_path / "switches.json"
    place.write_text("{", encoding="utf-8")
    control, host = await opened(tmp_path)
    assert not control.on
    assert "switches.json cannot be read" in host.degraded["awareness"]
    place.unlink()
    await control.turn_on(host)
    await control.close()
    control, host = await opened(tmp_path)
    assert control.on
    await control.close()


async def test_a_switch_that_makes_no_sense_is_off_and_can_be_turned_on(tmp_path: Path) -> None:
    await FileSwitches(tmp_path).put(SWITCH, {"on": "perhaps"}, version=0)
    control, host = await opened(tmp_path)
    assert not control.on
    await control.turn_on(host)
    await control.close()
    control, host = await opened(tmp_path)
    assert control.on
    await control.close()


async def test_a_switch_that_cannot_be_written_is_said_and_holds_all_the_same(
    tmp_path: Path,
) -> None:
    control, host = await opened(tmp_path)
    (tmp_path / "switches.json").mkdir(parents=True)
    await control.turn_off(host, "said so")
    assert not control.on
    assert "lost at the next start" in host.degraded["awareness switch"]
    await control.close()


async def test_what_another_gateway_switches_holds_here_too_and_the_last_word_counts(
    tmp_path: Path,
) -> None:
    switches = FileSwitches(tmp_path)
    one, two = CardSwitch(settings()), CardSwitch(settings())
    hosts = [make_host(tmp_path) for _ in range(2)]
    for control, host in zip((one, two), hosts, strict=True):
        host.provide(SWITCHES, switches)
        await control.open(host)
    await one.turn_off(hosts[0], "said so")
    assert (two.on, two.why_off) == (False, "said so")
    assert "awareness" in hosts[1].degraded
    # Not heard of by one in time, which has the last word all the same.
    one._version = 100
    await two.turn_on(hosts[1])
    await one.turn_off(hosts[0], "again")
    assert (two.on, two.why_off) == (False, "again")
    assert (await switches.get(SWITCH)).value["reason"] == "again"
    # Cards that turn themselves off do not override what somebody switched meanwhile.
    await one.turn_on(hosts[0])
    one._unwatch()
    one._unwatch = lambda: None
    held = (await switches.get(SWITCH)).version
    changed = {"on": True, "reason": "", "at": 9, "since": 9}
    assert await switches.put(SWITCH, changed, version=held)
    await run(one, hosts[0], 50, 50)
    assert one.on
    assert (await switches.get(SWITCH)).value == changed
    await one.close()
    await two.close()


async def test_off_by_the_settings_and_back_is_taken_over_live(tmp_path: Path) -> None:
    control, _ = await opened(tmp_path)
    control.take_settings(settings(enabled=False))
    assert not control.on
    assert "enabled" in control.why_off
    control.take_settings(settings())
    assert control.on
    await control.close()


async def test_without_records_nothing_is_written_and_the_switch_still_counts(
    tmp_path: Path,
) -> None:
    control, host = await opened(tmp_path, records={"enabled": False})
    await run(control, host, 51, 51)
    assert not control.on
    assert not (tmp_path / "awareness" / "turns.jsonl").exists()
    await control.close()

"""Gateways behind a proxy that end, one after the other, while twelve or twenty people ask them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.support.crowd import Crowd
from tests.support.fleet import INSTALLED, KINDS, LIMIT, Fleet, connects, fleet_behind

from hookgate.ports import STOPPED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def places(kind: str, fleet: Fleet) -> list[str]:
    """Return how the proxy names the gateways."""
    return ["one", "two"] if kind == "haproxy" else [f"127.0.0.1:{p}" for p in fleet.ports]


def figures(crowd: Crowd, what: str, rounds: int) -> None:
    """Say what stands in benchmarks/RESULTS.md."""
    told = {
        what: rounds,
        "answered": crowd.answered,
        "failed": len(crowd.failed),
        "sockets told": crowd.told,
        "longest seconds": {kind: round(s, 2) for kind, s in crowd.longest.items()},
    }
    print(f"\n{json.dumps(told)}")


@pytest.mark.parametrize("kind", KINDS)
async def test_rolling_restarts_behind_a_proxy_fail_no_request(
    kind: str, url: str, tmp_path: Path, short: bool
) -> None:
    rounds = 2 if short else 20
    async with fleet_behind(kind, tmp_path, url) as (fleet, front):
        crowd = Crowd(front, fleet.headers, 12 if short else 20)
        async with crowd.asking():
            for turn in range(rounds):
                number = turn % 2
                before = dict(crowd.answered)
                last = await crowd.hold_one_at(places(kind, fleet)[number])
                process = fleet.processes[number]
                process.terminate()
                async with asyncio.timeout(LIMIT):
                    # Some are answered while it still listens, and some once it has ceased to.
                    for question in tuple(crowd.open.values()):
                        if question is not last:
                            assert (await crowd.answer(question))[0] == 200
                    while await connects(fleet.ports[number]):  # noqa: ASYNC110 - by another process
                        await asyncio.sleep(0.1)
                    assert process.returncode is None, "its question is open"
                    assert last.id in crowd.open, crowd.failed
                    crowd.release()
                    assert await process.wait() == 0, fleet.log(number)
                await fleet.start(number)
                crowd.seen.clear()
                place = places(kind, fleet)[number]
                await crowd.until(lambda: place in crowd.seen)  # noqa: B023
                answered = crowd.answered
                assert all(answered[one] > before[one] for one in before), (before, answered)
        assert await crowd.lost() == []
    figures(crowd, "restarts", rounds)
    assert crowd.failed == []
    assert crowd.told > 0


# Caddy and Envoy give some messages a 502 or 503 that begin within a second or two of a kill.
@pytest.mark.parametrize("kind", KINDS[:2])
async def test_a_gateway_that_is_killed_behind_a_proxy_fails_only_what_ran_there_and_once(
    kind: str, url: str, tmp_path: Path, short: bool
) -> None:
    if short and kind != INSTALLED[0]:
        pytest.skip("one proxy does for the short form, in which sessions wait for 15 s")
    rounds = 1 if short else 10
    loop = asyncio.get_running_loop()
    async with fleet_behind(kind, tmp_path, url) as (fleet, front):
        crowd = Crowd(front, fleet.headers, 12 if short else 20)
        async with crowd.asking():
            for turn in range(rounds):
                number, place = turn % 2, places(kind, fleet)[turn % 2]
                question = await crowd.hold_one_at(place)
                there = [one.peer for one in crowd.open.values() if one.at == place]
                failed = len(crowd.failed)
                told_to_end = loop.time()
                await fleet.kill(number)
                killed = loop.time()
                # Nobody is taken to have answered it, and nothing runs by that answer.
                status, told = await crowd.answer(question)
                assert status == 404, told
                assert STOPPED in told["error"]["message"], told
                crowd.release()
                await crowd.more()
                new = crowd.failed[failed:]
                assert [one for one in new if not one.retryable] == []
                assert [one for one in new if one.at not in ("", place)] == []
                assert [one for one in new if one.began > killed] == []
                # While it dies the system takes connections for it, and resets them.
                peers = [one.peer for one in new if one.began <= told_to_end]
                assert len({*peers}) == len(peers), new
                assert {*there} <= {*peers}, (there, new)
                await fleet.start(number)
                crowd.seen.clear()
                await crowd.until(lambda: place in crowd.seen)  # noqa: B023
        assert await crowd.lost() == []
    figures(crowd, "kills", rounds)

"""What hooks cost: nothing before somebody looks, and what they took from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builtin_plugins.control.test_inspection import ask, settings

from hookgate import Gateway, Turn
from hookgate.hookspecs import hookimpl

BUILTIN = ("control", "dashboard", "providers")


class Busy:
    name = "busy"

    @hookimpl
    def tag_turn(self, turn: Turn) -> set[str]:
        return {"a", "b"}

    @hookimpl
    def judge_turn(self, turn: Turn) -> None:
        raise RuntimeError("no judge: canary-42")


async def test_hooks_are_timed_from_the_first_look_on(tmp_path: Path) -> None:
    chosen = settings(tmp_path, secrets={"key": "canary-42"}, log={"level": "error"})
    async with Gateway(chosen, builtin=BUILTIN, plugins=[Busy]) as gateway:
        await gateway.chat("before")
        assert gateway.host.hooks.spans is None

        async def costs(**params: Any) -> dict[str, Any]:
            return await ask(gateway, "plugin.costs", **params)

        assert (await costs())["plugins"] == []
        await gateway.reload()
        for text in ("one", "two"):
            turn = await gateway.chat(text)
        await gateway.host.hooks.reported()
        found = await costs()
        by_name = {row["plugin"]: row for row in found["plugins"]}
        assert found["calls"] == []
        assert by_name["busy"]["calls"] == 4
        assert by_name["busy"]["failures"] == 2
        assert by_name["busy"]["slowest"] in ("tag_turn", "judge_turn")
        times = [row["milliseconds"] for row in found["plugins"]]
        assert times == sorted(times, reverse=True)
        (one,) = (found := await costs(plugin="busy"))["plugins"]
        hooks = {row["hook"]: (row["calls"], row["failures"]) for row in one["hooks"]}
        assert hooks == {"tag_turn": (2, 0), "judge_turn": (2, 2)}
        for row in one["hooks"]:
            assert 0 <= row["p95"] <= row["slowest"] <= row["milliseconds"]
        newest = found["calls"][0]
        assert (newest["hook"], newest["turn"], newest["failed"]) == ("judge_turn", turn.id, True)
        assert newest["returned"] == "RuntimeError: no judge: [redacted]"
        assert found["calls"][1]["returned"] == "set of 2"
        assert len((await costs(plugin="busy", limit=1))["calls"]) == 1
        assert (await costs(plugin="nobody"))["plugins"] == []

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookgate import Gateway, __version__
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import NoAgentError
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation, result_json
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import masked_json
from hookgate.hookspecs import hookimpl


class Shed:
    @hookimpl
    def list_tools(self, host: Any) -> list[Tool]:
        async def run(turn: Any, arguments: Any) -> str:
            return "done"

        flags = Flags(
            sends_externally=True,
            reads_external_data=False,
            grounds=(("sends_externally", "it writes to saws.example"),),
        )
        schema = {"type": "object"}
        return [
            Tool(
                name="saw",
                description="It cuts.",
                schema=schema,
                flags=flags,
                run=run,
                idempotent=False,
            ),
            Tool(name="hammer", description="key canary-42", schema=schema, run=run),
        ]


def settings(home: Path, **sections: Any) -> Settings:
    return Settings.model_validate({"home": home, "plugins": {"entry_points": False}, **sections})


async def ask(gateway: Gateway, operation_name: str, /, **params: Any) -> dict[str, Any]:
    operation = gateway.host.operations[operation_name]
    invocation = Invocation(host=gateway.host, principal=Principal.owner())
    result = await operation.handler(invocation, operation.params.model_validate(params))
    # As it leaves the gateway.
    return dict(json.loads(masked_json(gateway.host.secrets, result_json(result))))


async def test_tools_come_with_their_flags_and_what_these_rest_on(tmp_path: Path) -> None:
    chosen = settings(tmp_path, secrets={"key": "canary-42"})
    async with Gateway(chosen, builtin=("control",), plugins=[Shed]) as gateway:
        rows = (await ask(gateway, "tool.list"))["tools"]
        assert [(row["name"], row["description"]) for row in rows] == [
            ("hammer", "key [redacted]"),
            ("saw", "It cuts."),
        ]
        flags = rows[1]["flags"]
        assert flags["sends_externally"] == {
            "value": True,
            "standing": "declared",
            "ground": "it writes to saws.example",
        }
        assert flags["executes_privileged"] == {"value": None, "standing": "unknown", "ground": ""}
        assert [row["idempotent"] for row in rows] == [None, False]
        found = await ask(gateway, "tool.list", name="h*")
        assert [row["name"] for row in found["tools"]] == ["hammer"]


async def test_why_a_plugin_runs_is_said(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), builtin=("control",), plugins=[Shed]) as gateway:
        assert "list_tools" in (await ask(gateway, "plugin.why", name="shed"))["why"]
        assert "did you mean 'shed'" in (await ask(gateway, "plugin.why", name="shet"))["why"]


async def test_the_choice_of_an_agent_is_explained(tmp_path: Path) -> None:
    chosen = settings(
        tmp_path,
        agents={"a": {"model": "demo/demo"}, "b": {"model": "demo/demo"}},
        bindings=[{"agent": "a", "channel": "web"}, {"agent": "b", "peer": "ada"}],
    )
    async with Gateway(chosen, builtin=("control",)) as gateway:
        route = await ask(gateway, "route.explain", channel="web", peer="ada")
        assert (route["agent"], route["tier"], route["binding"]) == ("b", "peer", 1)
        assert "peer 'ada'" in route["reason"]
        with pytest.raises(NoAgentError):
            await ask(gateway, "route.explain", channel="irc")


async def test_a_plugin_sees_which_plugins_run_and_which_do_not(tmp_path: Path) -> None:
    chosen = settings(tmp_path, plugins={"entry_points": False, "disable": ["tools"]})
    async with Gateway(chosen, builtin=("control", "egress", "tools"), plugins=[Shed]) as gateway:
        running = [(info.name, info.origin, info.version) for info in gateway.host.plugins()]
        assert running == [
            ("control", "builtin", __version__),
            ("egress", "builtin", __version__),
            ("shed", "program", ""),
        ]
        every = {info.name: info.state for info in gateway.host.plugins(every=True)}
        assert every == {
            "control": "running",
            "egress": "running",
            "tools": "disabled",
            "shed": "running",
        }
        rows = (await ask(gateway, "plugin.list"))["plugins"]
        assert {row["name"]: (row["state"], row["version"]) for row in rows} == {
            "control": ("running", __version__),
            "egress": ("running", __version__),
            "tools": ("disabled", __version__),
            "shed": ("running", ""),
        }

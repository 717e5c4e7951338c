from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hookgate import Gateway, __version__
from hookgate.clients import call_operation
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import ConfigError, HookgateError, NoAgentError
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation, result_json
from hookgate.core.settings.file import load_settings
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


async def test_settings_come_with_the_layer_that_set_them_and_without_secrets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f"home = '{tmp_path}/home'\n[context]\nhistory_turns = 3\n[secrets]\nkey = 'canary-42'\n"
        "[plugins]\nentry_points = false\n[plugin.memory]\nrecall_tokens = 999\n"
        "[agents.main]\nmodel = 'demo/demo'\n"
    )
    environ = {"HOOKGATE_LOG__LEVEL": "error"}

    def read() -> Settings:
        return load_settings(file, environ=environ, overrides={"turn.max_iterations": 4})

    builtin = ("control", "memory", "providers")
    async with Gateway(read(), builtin=builtin, read_settings=read) as gateway:

        async def rows(**params: Any) -> dict[str, dict[str, Any]]:
            found = (await ask(gateway, "config.show", **params))["settings"]
            return {row["key"]: row for row in found}

        set_by = await rows()
        assert {key: (row["value"], row["layer"], row["place"]) for key, row in set_by.items()} == {
            "home": (f"{tmp_path}/home", "file", f"{file}:1"),
            "context.history_turns": (3, "file", f"{file}:3"),
            "secrets.key": ("[redacted]", "file", f"{file}:5"),
            "plugins.entry_points": (False, "file", f"{file}:7"),
            "plugin.memory.recall_tokens": (999, "file", f"{file}:9"),
            "agents.main.model": ("demo/demo", "file", f"{file}:11"),
            "log.level": ("error", "environment", "HOOKGATE_LOG__LEVEL"),
            "turn.max_iterations": (4, "command line", "command line"),
        }
        assert (await rows(all=True))["context.budget_tokens"]["layer"] == "default"
        memory = await rows(section="plugin.memory", all=True)
        assert memory["plugin.memory.learn"] == {
            **{"key": "plugin.memory.learn", "value": True, "layer": "default"},
            **{"place": "", "restart": False},
        }
        assert all(key.startswith("plugin.memory.") for key in memory)
        with pytest.raises(ConfigError, match="did you mean `context`"):
            await ask(gateway, "config.show", section="contxt")
        # What has changed is shown at once, and whether it counts yet.
        changed = file.read_text().replace("= 3", "= 4\nunsanitized = 'allow'")
        file.write_text(changed.replace("demo/demo", "demo/two"))
        await gateway.reload()
        now = await rows()
        assert now["context.history_turns"]["value"] == 4
        assert not now["context.history_turns"]["restart"]
        assert now["context.unsanitized"]["value"] == "allow"
        assert now["context.unsanitized"]["restart"]
        assert not now["agents.main.model"]["restart"]


async def test_settings_of_a_program_are_named_so(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), builtin=("control",)) as gateway:
        found = (await ask(gateway, "config.show"))["settings"]
        assert {(row["key"], row["layer"]) for row in found} == {
            ("home", "program"),
            ("plugins.entry_points", "program"),
        }


async def test_the_log_has_a_tail_that_can_be_searched_and_is_masked(tmp_path: Path) -> None:
    chosen = settings(tmp_path, secrets={"key": "canary-42"}, log={"level": "info"})
    async with Gateway(chosen, builtin=("control",)) as gateway:
        log = gateway.log.logger("shed")
        first = (await ask(gateway, "log.tail"))["next"]
        log.debug("not logged")
        log.info("sharp", blade={"key": "canary-42"})
        log.warning("blunt: canary-42")
        log.critical("Broken")
        found = await ask(gateway, "log.tail", after=first)
        told = [(line["level"], line["logger"], line["event"]) for line in found["lines"]]
        assert told == [
            ("info", "shed", "sharp"),
            ("warning", "shed", "blunt: [redacted]"),
            ("critical", "shed", "Broken"),
        ]
        assert found["lines"][0]["fields"] == {"blade": '{"key":"[redacted]"}'}
        assert (found["next"], found["missed"], found["level"]) == (first + 3, 0, "info")

        async def events(**params: Any) -> list[str]:
            lines = (await ask(gateway, "log.tail", after=first, **params))["lines"]
            return [line["event"] for line in lines]

        assert await events(level="error") == ["Broken"]
        assert await events(search="BLADE") == ["sharp"]
        assert await events(limit=1) == ["Broken"]
        # A number of before a restart is none of these: all lines are there.
        assert (await ask(gateway, "log.tail", after=10_000))["lines"]
        for number in range(600):
            log.info(f"line {number}")
        found = await ask(gateway, "log.tail", after=first, limit=500)
        assert [line["event"] for line in found["lines"]][-1] == "line 599"
        assert (len(found["lines"]), found["missed"]) == (500, 103)


async def test_new_lines_of_the_log_are_told_to_operators_alone(tmp_path: Path) -> None:
    chosen = settings(tmp_path, log={"level": "info"})
    async with Gateway(chosen, builtin=("control",)) as gateway:
        events = gateway.host.events
        reader = Principal(id="r", scopes=frozenset({"read"}))
        with (
            events.subscribe(principal=Principal.owner()) as owner,
            events.subscribe(principal=reader) as other,
        ):
            threading.Thread(target=gateway.log.logger().info, args=("from a thread",)).start()
            gateway.log.logger().info("one more")
            async for event in owner:
                assert event.type == "log"
                assert set(event.data) == {"last"}
                break
            other.close()
            assert [event async for event in other] == []


async def test_settings_and_the_log_are_for_operators_alone(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path), builtin=("control",)) as gateway:
        reader = Principal(id="r", scopes=frozenset({"read", "chat", "approve"}))
        for name in ("config.show", "log.tail"):
            with pytest.raises(HookgateError, match="operate"):
                await call_operation(gateway.host, reader, name, {}, path="test")

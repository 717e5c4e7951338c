"""Looking at plugins, whatever is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Ran
from tests.support.examples import sampled

CLASH = """
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.tools import Tool
from hookgate.hookspecs import hookimpl


SCHEMA = {"type": "object"}


async def run(turn, arguments):
    return "mine"


class Plugin:
    @hookimpl
    def list_tools(self, host):
        return [
            Tool(name=name, description="Mine.", schema=SCHEMA, flags=Flags.none(), run=run)
            for name in ("calculate", "mine")
        ]
"""
RUNNER = CLASH.replace("flags=Flags.none()", "flags=Flags.none(), sandbox='wasm'")
Installed = Callable[..., Ran]


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


@pytest.fixture
def installed(
    hookgate: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], Installed]]:
    """Installs a plugin, and runs the command line with it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def install(source: str, name: str = "acme") -> Installed:
        (folder / "acme_plugin.py").write_text(source)
        info = folder / "acme_plugin-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hookgate]\n{name} = acme_plugin:Plugin\n")

        def run(*words: str) -> Ran:
            sys.modules.pop("acme_plugin", None)
            return hookgate(*words, HOOKGATE_PLUGINS__ENTRY_POINTS="true")

        return run

    yield install
    sys.modules.pop("acme_plugin", None)


@pytest.mark.slow
def test_a_plugin_whose_tool_has_a_builtins_name_stops_nothing_and_is_told(
    installed: Callable[[str], Installed],
) -> None:
    run = installed(CLASH)
    listed = run("plugins", "list", "--json")
    assert listed.code == 0
    states = {row["name"]: row["state"] for row in listed.json["plugins"]}
    assert states["acme"] == states["tools"] == "running"
    assert run("plugins", "why", "acme").code == 0
    tools = {row["name"]: row["plugin"] for row in run("tools", "list", "--json").json["tools"]}
    assert (tools["calculate"], tools["mine"]) == ("tools", "acme")
    told = run("plugins", "doctor").out
    assert "tool calculate of acme" in told
    assert 'replace = { tools = "acme" }' in told
    assert run("turn", "what is 17*23?").code == 0


@pytest.mark.parametrize(
    ("config", "source", "said"),
    sampled(
        [
            ("[turn]\nmax_depth = 'x'", CLASH, "turn.max_depth"),
            ("[plugin.memory]\nrecal = 1", CLASH, "plugin.memory.recal"),
            ("[plugins]\nrequired = ['acme']", "raise OSError('gone')", "gone"),
            ("[plugins]\ndisable = ['providers', 'storage', 'egress']", CLASH, "egress"),
        ],
        every=2,
    ),
)
def test_plugins_can_be_looked_at_whatever_stops_the_start(
    hookgate: CommandLine,
    installed: Callable[[str], Installed],
    config: str,
    source: str,
    said: str,
) -> None:
    run = installed(source)
    hookgate.config(f"{config}\n")
    listed = run("plugins", "list", "--json")
    assert listed.code == 0
    assert {"acme", "policy", "tools"} <= {row["name"] for row in listed.json["plugins"]}
    why = run("plugins", "why", "memory")
    assert (why.code, "'memory' (builtin)" in why.out) == (0, True)
    assert said in listed.err + run("plugins", "doctor").out


def test_a_plugin_of_a_builtins_name_is_named_and_the_others_are_listed(
    installed: Callable[[str, str], Installed],
) -> None:
    run = installed(CLASH, "memory")
    listed = run("plugins", "list")
    assert listed.code == 0
    assert "installing never replaces a builtin" in listed.err
    assert "policy" in listed.out


def test_nothing_is_imported_to_be_looked_at_where_the_settings_cannot_be_read(
    hookgate: CommandLine, installed: Callable[[str], Installed]
) -> None:
    run = installed(CLASH)
    hookgate.config("[plugins]\nallow = [\n")
    listed = run("plugins", "list", "--json")
    assert listed.code == 0
    assert "acme" not in {row["name"] for row in listed.json["plugins"]}
    assert "acme_plugin" not in sys.modules


@pytest.mark.slow
def test_the_name_of_the_sandboxs_runner_is_given_by_the_operator(
    hookgate: CommandLine, installed: Callable[..., Installed]
) -> None:
    run = installed(RUNNER, "wasm")
    ran = run("tools", "list", "mine", "--json")
    assert ran.code != 0
    assert "installing never replaces a builtin" in ran.json["error"]["message"]
    run = installed(RUNNER, "acme_wasm")
    assert run("tools", "list", "mine", "--json").json["tools"] == []
    hookgate.config('[plugins]\nreplace = { wasm = "acme_wasm" }\n')
    (tool,) = run("tools", "list", "mine", "--json").json["tools"]
    assert (tool["plugin"], tool["sandbox"]) == ("wasm", "wasm")


AILING = """
import time
from hookgate.hookspecs import hookimpl


class Plugin:
    @hookimpl
    def before_turn(self, turn):
        time.sleep(0.12)

    @hookimpl
    def tag_turn(self, turn):
        raise OSError("no route to host")
"""


def test_the_doctor_calls_a_plugin_that_raises_broken_and_names_a_hook_that_holds_the_loop(
    installed: Callable[[str], Installed],
) -> None:
    run = installed(AILING)
    ran = run("plugins", "doctor", "--json")
    assert ran.code == 1
    told = {
        (one["level"], one["text"]) for one in ran.json["findings"] if one["about"] == "plugin acme"
    }
    assert ("problem", "broken: its hook tag_turn fails: OSError: no route to host") in told
    (slow,) = [text for level, text in told if level == "note"]
    assert "slow: its hook before_turn" in slow
    assert "held the event loop for" in slow
    shown = run("turn", "hi", "--explain").out
    assert "held the event loop for" in shown

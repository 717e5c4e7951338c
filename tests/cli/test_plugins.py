"""Looking at plugins, whatever is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Ran, Served
from tests.support.examples import sampled

from hookgate.core.domain.turn import Turn
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl

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
DEMANDING = """
from hookgate import Section


class Plugin:
    class Settings(Section):
        key: str

    def __init__(self, settings):
        pass
"""
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


def test_a_setting_that_an_installed_plugin_lacks_is_told_with_how_to_set_it(
    hookgate: CommandLine, installed: Callable[[str], Installed]
) -> None:
    run = installed(DEMANDING)
    file = hookgate.home / ".hookgate" / "config.toml"
    for words in (("config", "check"), ("turn", "hello")):
        ran = run(*words)
        told = " ".join((ran.out + ran.err).split())
        assert ran.code == 2
        assert "error the settings plugin.acme.key found nothing expected text in quotes" in told
        assert "write `key = ...` below [plugin.acme] of the settings file; " in told
        assert f"`hookgate -p no:acme` runs without the plugin; the file is {file}" in told
    file.parent.mkdir(exist_ok=True)
    file.write_text("[plugin.acme]\nkey = 'x'\n")
    assert run("config", "check").code == 0


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


def hooked(hook: str, body: str, *, name: str = "Plugin") -> str:
    """Return the source of a plugin with one hook."""
    return (
        "import time\nfrom hookgate import Refusal\nfrom hookgate.hookspecs import hookimpl\n\n"
        f"class {name}:\n    @hookimpl\n    {hook}\n        {body}\n"
    )


FAULTS = {
    "a refused turn": (
        hooked("def before_turn(self, turn):", 'return Refusal(code="no", message="not today")'),
        ("turn", "its own turn was refused by the plugin acme: not today"),
    ),
    "a filter that raises": (
        hooked(
            "def filter_stream(self, turn, events):",
            'async def cut():\n            raise OSError("cut")\n            yield\n        '
            "return cut()",
        ),
        ("turn", "hook filter_stream of plugin 'acme' failed: OSError: cut"),
    ),
    "a hook that blocks": (
        hooked("def before_turn(self, turn):", "time.sleep(1.1)"),
        ("plugin acme", "slow: its hook before_turn nothing; held the event loop for 1"),
    ),
    "a class of another name": (
        hooked("def before_turn(self, turn):", "return None", name="Rules"),
        ("plugin acme", 'name that one in the entry point, `NAME = "acme_plugin:Rules"`'),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_doctor_names_what_ails_whoever_it_ails(
    installed: Callable[[str], Installed], fault: str
) -> None:
    source, (about, said) = FAULTS[fault]
    ran = installed(source)("plugins", "doctor", "--json")
    assert ran.code == 1
    problems = [one for one in ran.json["findings"] if one["level"] == "problem"]
    assert [one["about"] for one in problems if said in one["text"]] == [about], problems


def test_what_nobody_expects_is_a_finding_of_the_doctor_and_no_traceback(
    hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(Gateway, "chat", broken)
    ran = hookgate("plugins", "doctor")
    assert ran.code == 1
    assert "problem start: ZeroDivisionError, which nobody expected: by nought" in ran.out
    assert "Traceback" not in ran.out + ran.err


def test_the_doctor_looks_for_keys_where_they_belong(hookgate: CommandLine) -> None:
    hookgate.config('[agents.main]\nmodel = "anthropic/claude-x"\n')
    ran = hookgate("plugins", "doctor")
    assert "write the key to ~/.hookgate/keys/anthropic_api_key" in ran.out
    assert "hookgate-doctor-" not in ran.out
    folder = hookgate.home / ".hookgate" / "keys"
    folder.mkdir(mode=0o700)
    (folder / "anthropic_api_key").write_text("sk-key-of-the-home")
    (folder / "anthropic_api_key").chmod(0o600)
    assert "no key for anthropic" not in hookgate("plugins", "doctor").out


RAISING = hooked("def tag_turn(self, turn):", 'raise OSError("no route to host")')
SKIPPED = "acme was skipped: its hook tag_turn failed: OSError: no route to host"


def test_a_hook_that_fails_and_is_skipped_is_one_line_beside_the_answer(
    installed: Callable[[str], Installed],
) -> None:
    run = installed(RAISING)
    for words in (("chat", "what is 2*3?"), ("turn", "what is 2*3?")):
        ran = run(*words)
        assert ran.out == "2*3 = 6.\n"
        assert ran.err.count(SKIPPED) == 1


def test_of_a_gateway_that_runs_a_failing_hook_is_told_to_who_operates_it_alone(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    data = hookgate("token", "new", "ann", "--scope", "chat", "--scope", "read", "--json").json
    hookgate.config(data["toml"])
    served = serve()
    hooks = served.gateway.plugins.hooks

    class Acme:
        @hookimpl
        def tag_turn(self, turn: Turn) -> None:
            raise OSError("no route to host")

    served.gateway.plugins.manager.register(Acme(), "acme")
    hooks.recompute()
    assert hookgate("chat", "what is 2*3?").err.count(SKIPPED) == 1
    assert SKIPPED not in hookgate("chat", "what is 2*3?", HOOKGATE_TOKEN=data["token"]).err


def test_what_was_installed_since_the_gateway_started_waits_for_a_restart(
    serve: Callable[[], Served], installed: Callable[[str], Installed]
) -> None:
    serve()
    run = installed(RAISING)
    told = run("plugins", "why", "acme")
    assert told.code == 0
    assert "installed since the gateway started; restart it" in told.out
    (row,) = [
        one for one in run("plugins", "list", "--json").json["plugins"] if one["name"] == "acme"
    ]
    assert (row["state"], row["origin"]) == ("waiting", "acme_plugin 1.0")
    assert "restart it" in run("plugins", "list").out.replace("\n", " ")

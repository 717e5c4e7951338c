from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Served
from tests.cli.terminal import Terminal

from hookgate.core.domain.descriptors import FLAG_NAMES


def test_plugins_are_listed_with_what_keeps_some_from_running(hookgate: CommandLine) -> None:
    hookgate.config("[plugins]\ndisable = ['memory']\n")
    lines = {line.split()[0]: line for line in hookgate("plugins", "list").out.splitlines()[2:-1]}
    assert "running" in lines["storage"]
    assert "store, conversations" in lines["storage"]
    assert "disabled" in lines["memory"]
    assert "plugins.disable" in lines["memory"]


def test_why_a_plugin_runs_or_does_not_is_said(hookgate: CommandLine) -> None:
    ran = hookgate("plugins", "why", "policy")
    assert ran.code == 0
    assert "before_tool_call" in ran.out
    ran = hookgate("-p", "no:memory", "plugins", "why", "memory")
    assert "disabled" in ran.out
    ran = hookgate("plugins", "why", "")
    assert (ran.code, ran.out) == (1, "no plugin called '' is builtin or installed\n")
    ran = hookgate("plugins", "why", "polcy")
    assert ran.code == 1
    assert "did you mean 'policy'" in ran.out


def test_a_healthy_gateway_has_no_findings_but_good_ones(hookgate: CommandLine) -> None:
    ran = hookgate("plugins", "doctor")
    assert "settings: no settings file, all defaults" in ran.out
    assert ran.code == 0, ran.out
    assert "problem" not in ran.out
    assert "plugin storage" in ran.out
    assert not (hookgate.home / ".hookgate" / "hookgate.db").exists(), "the home is left alone"


@pytest.mark.parametrize(
    "text",
    ["[plugin.storage]\npth = 1", "[agents.a]\nmodel = 'demo/demo'\nsoul_file = 'absent.md'"],
)
def test_what_keeps_a_gateway_from_starting_is_a_finding(hookgate: CommandLine, text: str) -> None:
    path = hookgate.config(text)
    ran = hookgate("plugins", "doctor", "--json")
    assert ran.code == 1
    problems = [one["text"] for one in ran.json["findings"] if one["level"] == "problem"]
    assert len(problems) == 1
    assert str(path) in problems[0] or "absent.md" in problems[0]


def test_the_cost_of_hooks_is_measured(hookgate: CommandLine) -> None:
    data = hookgate("plugins", "bench", "--turns", "3", "--json").json
    rows = {(row["hook"], row["plugin"]): row for row in data["hooks"]}
    judged = rows["before_tool_call", "policy"]
    assert judged["calls_per_turn"] == 2
    assert 0 < judged["median_us"] <= judged["p95_us"]
    assert data["turn_median_ms"] > 0
    assert not (hookgate.home / ".hookgate" / "hookgate.db").exists(), "the home is left alone"


def test_there_is_nothing_to_trace_without_a_gateway(hookgate: CommandLine) -> None:
    ran = hookgate("plugins", "trace")
    assert ran.code == 1
    assert "no gateway runs" in ran.err


@pytest.mark.slow
def test_hooks_are_followed_until_ctrl_c(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    served = serve()
    with Terminal(hookgate.environ, "plugins", "trace", "--hook", "before_*") as terminal:
        terminal.expect("Ctrl-C ends it")
        wait_until(lambda: served.gateway.host.hooks.spans is not None)
        assert hookgate("chat", "what is 2*3?").code == 0
        assert "select_capabilities" not in terminal.expect("before_tool_call       policy")
        terminal.interrupt()
        assert terminal.exit_code() == 130
    wait_until(lambda: served.gateway.host.hooks.spans is None)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def test_tools_are_listed_with_flags_and_what_these_rest_on(hookgate: CommandLine) -> None:
    out = hookgate("tools", "list", "--capabilities").out
    row = next(line for line in out.splitlines() if line.strip().startswith("calculate"))
    assert row.split() == ["calculate", "tools", *["no"] * len(FLAG_NAMES), "ready"]
    rows = hookgate("tools", "list", "--json").json["tools"]
    assert {flag["standing"] for row in rows for flag in row["flags"].values()} <= {
        "proven",
        "declared",
        "unknown",
    }
    (clock,) = hookgate("tools", "list", "cl*", "--json").json["tools"]
    assert clock["name"] == "clock"
    assert "no tool is called" in hookgate("tools", "list", "absent").out


ROUTES = """
default_agent = "main"
[agents.main]
model = "demo/demo"
[agents.shop]
model = "demo/other"
[[bindings]]
agent = "shop"
channel = "web"
"""


def test_the_choice_of_an_agent_is_explained(hookgate: CommandLine) -> None:
    path = hookgate.config(ROUTES)
    ran = hookgate("route", "--channel", "web", "--peer", "a:b")
    assert "matches: shop" in ran.out
    assert f"bindings[0] matches by channel 'web' ({path}:7)" in ran.out
    data = hookgate("route", "--channel", "web", "--peer", "a:b", "--json").json
    assert data["session"] == "shop:web:local:a%3Ab"
    assert data["models"] == ["demo/other"]
    assert hookgate("route", "--json").json["tier"] == "default"


def test_an_address_without_an_agent_is_an_error_that_says_what_to_do(
    hookgate: CommandLine,
) -> None:
    hookgate.config(ROUTES.replace('default_agent = "main"', ""))
    ran = hookgate("route", "--channel", "irc")
    assert ran.code == 1
    assert "default_agent" in ran.err


def test_sessions_are_listed_and_shown(hookgate: CommandLine) -> None:
    assert "no session is stored" in hookgate("sessions", "list").out
    assert hookgate("sessions", "show").code == 1
    hookgate("chat", "what is 17*23?", "--peer", "ada")
    hookgate("chat", "hello", "--peer", "bob")
    rows = hookgate("sessions", "list", "--json").json["sessions"]
    assert [row["session"] for row in rows] == ["demo:cli:local:bob", "demo:cli:local:ada"]
    shown = hookgate("sessions", "show", "demo:cli:local:ada").out
    assert "what is 17*23?" in shown
    assert '▸ calculate {"expression":"17*23"}' in shown
    assert "hello" in hookgate("sessions", "show").out
    ran = hookgate("sessions", "show", "demo:cli:local:nobody")
    assert ran.code == 1
    assert "sessions.list" in ran.err


def test_the_store_says_where_it_is(hookgate: CommandLine) -> None:
    data = hookgate("db", "status", "--json").json
    assert data["place"] == str(hookgate.home / ".hookgate" / "hookgate.db")
    assert all(row["current"] for row in data["tables"])


def test_tables_are_upgraded_where_a_start_would_not_do_it(hookgate: CommandLine) -> None:
    hookgate.config("[plugin.storage]\nauto_upgrade = false\n")
    refused = hookgate("tools", "list")
    assert refused.code == 1
    assert "hookgate db upgrade" in refused.err
    data = hookgate("db", "upgrade", "--json").json
    assert all(row["current"] for row in data["tables"])
    assert hookgate("tools", "list").code == 0


@pytest.mark.parametrize("folder", ["there", "file/below"])
def test_a_file_that_cannot_be_written_is_an_error_that_names_it(
    hookgate: CommandLine, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    ran = hookgate("audit", "export", "--out", str(tmp_path / folder))
    assert (ran.code, ran.out) == (1, "")
    assert str(tmp_path / "file" if "/" in folder else tmp_path / folder) in ran.err
    assert "directory" in ran.err

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Served
from typer.core import TyperGroup
from typer.main import get_command

from hookgate.cli.app import app

HEAVY = ("aiohttp", "alembic", "httpx", "sqlalchemy", "sqlmodel", "structlog")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        pytest.param(["--version"], marks=pytest.mark.slow),
        pytest.param(["turn", "--help"], marks=pytest.mark.slow),
        ["chat", "-h"],
    ],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["hookgate", *{words!r}]
from hookgate.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
print("loaded", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = python(code)
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_the_version_is_printed(hookgate: CommandLine) -> None:
    assert re.fullmatch(r"hookgate \d+\.\d+\.\d+\n", hookgate("--version").out)


@pytest.mark.slow
def test_every_command_has_help_and_an_option_for_json(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    helps: dict[tuple[str, ...], str] = {}

    def walk(*words: str) -> list[tuple[str, ...]]:
        text = helps[words] = hookgate(*words, "--help").out
        section = re.split(r"─ Options ─", text)[-1]
        names = re.findall(r"^│ ([a-z]+) {2,}\S", section, re.MULTILINE)
        leaves = [leaf for name in names for leaf in walk(*words, name)]
        return leaves or [words]

    commands = walk()
    assert ("config", "check") in commands
    assert ("token", "revoke") in commands, "commands of operations are listed in their group"
    for words in commands:
        assert len(helps[words].split("─ ")[0].strip().splitlines()) >= 3, words
        if words != ("serve",):
            assert "--json" in helps[words], words


def test_without_a_command_the_help_is_shown(hookgate: CommandLine) -> None:
    ran = hookgate()
    assert ran.code == 2
    assert "hookgate commands" in ran.out + ran.err


def test_problems_of_the_settings_are_told_all_at_once_without_a_stack_trace(
    hookgate: CommandLine,
) -> None:
    path = hookgate.config("[gateway]\nhots = 'x'\n[turn]\nlane_queue = 'many'\n")
    ran = hookgate("status")
    assert ran.code == 2
    assert ran.out == ""
    assert "2 problems" in ran.err
    assert f"{path}:2" in ran.err
    assert "did you mean gateway.host?" in ran.err
    assert f"{path}:4" in ran.err
    assert "Traceback" not in ran.err


def test_problems_of_plugins_are_told_together_with_all_others(hookgate: CommandLine) -> None:
    config = hookgate.home / "all.toml"
    config.write_text(
        "[gateway]\nprot = 7200\n[plugin.polcy]\nx = 1\n"
        '[plugin.policy]\nprofile = "loose"\n[hooks.before_turn]\nlimit = 900\n'
    )
    ran = hookgate("--config", str(config), "config", "check")
    assert ran.code == 2
    for line, key in (
        (2, "gateway.prot"),
        (3, "plugin.polcy"),
        (6, "plugin.policy.profile"),
        (8, "hooks.before_turn.limit"),
    ):
        assert f"all.toml:{line}  {key}" in ran.err


def test_problems_of_a_plugins_section_come_with_file_and_line(hookgate: CommandLine) -> None:
    path = hookgate.config("[plugin.policy]\nprofil = 'strict'\n")
    ran = hookgate("tools", "list", HOOKGATE_PLUGIN__TOOLS__NONSENSE="1")
    assert ran.code == 2
    assert f"{path}:2  plugin.policy.profil" in ran.err
    assert "HOOKGATE_PLUGIN__TOOLS__NONSENSE" in ran.err


def test_an_error_is_one_line_and_exit_code_1(hookgate: CommandLine) -> None:
    ran = hookgate("call", "no.such.operation")
    assert ran.code == 1
    assert ran.err.startswith("Error: there is no method 'no.such.operation'")
    assert "Traceback" not in ran.err


def test_errors_are_json_where_that_was_asked_for(hookgate: CommandLine) -> None:
    error = hookgate("--json", "call", "pingg").json["error"]
    assert error["code"] == "method_not_found"
    assert "ping" in error["action"]
    hookgate.config("port = 1")
    ran = hookgate("config", "show", "--json")
    assert ran.code == 2
    (problem,) = ran.json["error"]["problems"]
    assert (problem["line"], problem["nearest"]) == (1, "gateway.port")


def test_an_unknown_command_is_an_error_of_the_command_line(hookgate: CommandLine) -> None:
    ran = hookgate("statsu")
    assert ran.code == 2
    assert "status" in ran.err


def test_a_plugin_can_be_switched_off(hookgate: CommandLine) -> None:
    rows = hookgate("-p", "no:memory", "plugins", "list", "--json").json["plugins"]
    states = {row["name"]: row["state"] for row in rows}
    assert states["memory"] == "disabled"
    assert states["policy"] == "running"


@pytest.mark.parametrize("given", ["memory", "no:", "yes:memory"])
def test_an_option_that_does_not_switch_off_is_refused(hookgate: CommandLine, given: str) -> None:
    ran = hookgate("-p", given, "config", "check")
    assert ran.code == 2
    assert "expected no:NAME" in ran.err


def test_a_settings_file_can_be_named(hookgate: CommandLine) -> None:
    path = hookgate.home / "my.toml"
    path.write_text("[context]\nhistory_turns = 7\n")
    rows = hookgate("--config", str(path), "config", "show", "--json").json["settings"]
    (row,) = [row for row in rows if row["key"] == "context.history_turns"]
    assert (row["value"], row["layer"], row["place"]) == (7, "file", f"{path}:2")
    assert hookgate("--config", str(path) + "x", "config", "show").code == 2


def test_completion_offers_commands_without_a_gateway(hookgate: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hookgate"],
        env={
            "_PYTHON__M_HOOKGATE_COMPLETE": "complete_bash",
            "_HOOKGATE_COMPLETE": "complete_bash",
            "COMP_WORDS": "hookgate p",
            "COMP_CWORD": "1",
            **hookgate.environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "plugins" in done.stdout
    assert "chat" not in done.stdout.split()
    assert not (hookgate.home / ".hookgate").exists()


def test_the_commands_of_plugins_are_listed(hookgate: CommandLine) -> None:
    rows = hookgate("commands", "--json").json["commands"]
    told = {row["command"]: row["plugin"] for row in rows}
    assert told["hookgate audit list"] == "audit"
    assert "hookgate audit list" in hookgate("commands").out


def test_no_command_is_there_twice(hookgate: CommandLine) -> None:
    own: set[str] = set()

    def walk(group: Any, *words: str) -> None:
        for name, command in group.commands.items():
            own.add(" ".join(("hookgate", *words, name)))
            if isinstance(command, TyperGroup):
                walk(command, *words, name)

    walk(get_command(app))
    rows = hookgate("commands", "--json").json["commands"]
    brought = [row["command"] for row in rows]
    assert len(brought) == len(set(brought)) > 10
    assert own.isdisjoint(brought)
    assert hookgate("sessions", "history", "demo:cli:local:main").code == 2


def test_json_is_all_that_stands_on_standard_output(hookgate: CommandLine) -> None:
    for words in (["plugins", "list"], ["sessions", "list"], ["config", "check"], ["db", "status"]):
        assert json.loads(hookgate(*words, "--json").out)

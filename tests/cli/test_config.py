from __future__ import annotations

import json

import jsonschema_rs
import pytest
from tests.cli.conftest import CommandLine


def test_what_is_set_is_shown_with_its_source_and_without_secrets(hookgate: CommandLine) -> None:
    path = hookgate.config(
        "[context]\nhistory_turns = 3\n[secrets]\nmodel = 'canary-1'\n"
        "[plugin.tools]\nread_roots = []\n"
    )
    ran = hookgate("config", "show", HOOKGATE_LOG__LEVEL="debug")
    rows = {line.split()[0]: line for line in ran.out.splitlines() if "." in line}
    assert f"{path}:2" in rows["context.history_turns"]
    assert rows["log.level"].split()[1:] == ['"debug"', "HOOKGATE_LOG__LEVEL"]
    assert "[redacted]" in rows["secrets.model"]
    assert "canary" not in ran.out + hookgate("config", "show", "--json", "--all").out
    assert "context.budget_tokens" not in rows
    assert "context.budget_tokens" in hookgate("config", "show", "--all").out


def test_without_settings_nothing_is_set(hookgate: CommandLine) -> None:
    rows = hookgate("config", "show", "--json").json["settings"]
    assert {row["from"] for row in rows} == {
        "HOOKGATE_GATEWAY__PORT",
        "HOOKGATE_PLUGINS__ENTRY_POINTS",
        "HOOKGATE_PLUGIN__EMBEDDING__LOAD_AFTER_SECONDS",
    }


def test_right_settings_are_said_to_be_right(hookgate: CommandLine) -> None:
    path = hookgate.config("[agents.main]\nmodel = 'demo/demo'\n")
    ran = hookgate("config", "check")
    assert ran.code == 0
    assert f"ok {path}" in ran.out
    assert "storage" in ran.out


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[turn]\nlane_queue = 'x'", 2, "turn.lane_queue"),
        ("a = [", 1, ""),
        ("\n[plugin.storage]\npth = 'x'", 3, "plugin.storage.pth"),
        ("[plugins]\ndisable = ['memroy']", 2, "plugins.disable"),
        ("[hooks.before_trun]\nlimit = 1", 1, "hooks.before_trun"),
    ],
)
def test_wrong_settings_are_told_with_exit_code_2(
    hookgate: CommandLine, text: str, line: int, key: str
) -> None:
    path = hookgate.config(text)
    ran = hookgate("config", "check", "--json")
    assert ran.code == 2
    data = ran.json
    (problem,) = data.get("problems") or data["error"]["problems"]
    assert (problem["file"], problem["line"]) == (str(path), line)
    assert problem["key"].startswith(key)
    told = hookgate("config", "check")
    assert told.code == 2
    assert f"{path}:{line}" in told.err


def test_the_schema_describes_the_file_and_its_plugins(hookgate: CommandLine) -> None:
    schema = json.loads(hookgate("config", "schema").out)
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid({"gateway": {"port": 1}, "plugin": {"storage": {"path": "x"}}})
    assert not validator.is_valid({"gateway": {"prt": 1}})
    assert not validator.is_valid({"plugin": {"storage": {"pth": "x"}}})
    assert set(schema["properties"]["plugin"]["properties"]) >= {"storage", "policy", "tools"}

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from tests.cli.conftest import CommandLine


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


def test_what_is_set_is_shown_with_its_source_and_without_secrets(hookgate: CommandLine) -> None:
    path = hookgate.config(
        "[context]\nhistory_turns = 3\n[secrets]\nmodel = 'canary-1'\n"
        "[plugin.tools]\nread_roots = []\n"
    )
    ran = hookgate("config", "show", HOOKGATE_LOG__LEVEL="debug", COLUMNS="300")
    rows = {line.split()[0]: line for line in ran.out.splitlines() if "." in line}
    assert f"{path}:2" in rows["context.history_turns"]
    assert rows["log.level"].split()[1:] == ['"debug"', "environment", "HOOKGATE_LOG__LEVEL"]
    assert "[redacted]" in rows["secrets.model"]
    assert "canary" not in ran.out + hookgate("config", "show", "--json", "--all").out
    assert "context.budget_tokens" not in rows
    effective = hookgate("config", "show", "--effective").out
    (budget,) = (line for line in effective.splitlines() if "context.budget_tokens" in line)
    assert budget.split()[1:] == ["5000", "default", "-"]


def test_settings_of_a_section_are_shown_and_figures_are_no_secrets(hookgate: CommandLine) -> None:
    hookgate.config(
        "[plugin.providers.local]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'\n"
        "api_key = 'quokka'\nmodels.llama3 = { context_tokens = 8000 }\n"
    )
    ran = hookgate("config", "show", "plugin.providers", "--json")
    rows = {row["key"]: row["value"] for row in ran.json["settings"]}
    assert rows["plugin.providers.local.models.llama3.context_tokens"] == 8000
    assert rows["plugin.providers.local.api_key"] == "[redacted]"
    assert "quokka" not in ran.out + hookgate("config", "show").out
    ran = hookgate("config", "show", "plugin.memroy")
    assert ran.code == 2
    assert "did you mean `plugin.memory`?" in " ".join(ran.err.replace("│", "").split())


def test_the_settings_of_the_gateway_that_runs_are_shown(
    hookgate: CommandLine, serve: Callable[[], object]
) -> None:
    hookgate.config("[context]\nhistory_turns = 3\n")
    serve()
    hookgate.config("[context]\nhistory_turns = 4\n")
    assert "3" in shown(hookgate("config", "show"))
    assert "4" in shown(hookgate("--local", "config", "show"))


def shown(ran: Any) -> str:
    (line,) = (line for line in ran.out.splitlines() if "history_turns" in line)
    return str(line.split()[1])


def test_the_log_of_the_gateway_that_runs_is_shown(
    hookgate: CommandLine, serve: Callable[[], object]
) -> None:
    assert "no gateway runs" in hookgate("log", "tail").err
    serve()
    assert "cards reloaded" in hookgate("log", "tail", "--search", "cards reloaded").out
    (line,) = hookgate("log", "tail", "--json", "--search", "cards reloaded").out.splitlines()
    assert json.loads(line)["event"] == "cards reloaded"
    assert "level" in hookgate("log", "tail", "--level", "loud").err


def test_without_settings_nothing_is_set(hookgate: CommandLine) -> None:
    rows = hookgate("config", "show", "--json").json["settings"]
    assert {row["place"] for row in rows} == {
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


KEYS = {"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": "", "GROQ_API_KEY": ""}
LOCAL = """
[plugin.providers.local]
kind = "openai"
base_url = "http://127.0.0.1:11434/v1"
models.llama3 = { context_tokens = 8000 }
"""


def problems(hookgate: CommandLine, text: str, **environ: str) -> dict[str, dict[str, Any]]:
    """Return the problems that `config check` finds, by key."""
    path = hookgate.config(text)
    ran = hookgate("config", "check", "--json", **{**KEYS, **environ})
    assert ran.code == (2 if ran.json["problems"] else 0)
    for problem in ran.json["problems"]:
        assert problem["file"] == str(path)
        assert problem["line"] is not None
    return {problem["key"]: problem for problem in ran.json["problems"]}


def test_a_model_without_a_key_is_told_with_every_place_for_one(hookgate: CommandLine) -> None:
    found = problems(hookgate, "[agents.main]\nmodel = 'anthropic/claude'\n")
    problem = found["agents.main.model"]
    assert problem["found"] == "anthropic/claude, and there is no key for anthropic"
    assert problem["line"] == 2
    assert problem["expected"].endswith(
        "set ANTHROPIC_API_KEY, or write the key to ~/.hookgate/keys/anthropic_api_key "
        "(mode 0600), or set `anthropic_api_key` in [secrets]"
    )


def test_a_name_of_the_vendors_wires_for_an_agent_that_is_not_there(
    hookgate: CommandLine,
) -> None:
    alias = "[plugin.compat.aliases]\nhelp = { mode = 'agent', agent = 'mian' }\n"
    found = problems(hookgate, f"[agents.main]\nmodel = 'demo/demo'\n{alias}")
    problem = found["plugin.compat.aliases.help.agent"]
    assert (problem["line"], problem["nearest"]) == (4, "main")


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        ("", {"ANTHROPIC_API_KEY": "sk-canary-1"}),
        ("[secrets]\nanthropic_api_key = 'sk-canary-1'\n", {}),
        ("[plugin.providers.anthropic]\napi_key = 'sk-canary-1'\n", {}),
    ],
)
def test_a_key_is_found_where_it_was_said_to_be_looked_for(
    hookgate: CommandLine, text: str, environ: dict[str, str]
) -> None:
    agent = "[agents.main]\nmodel = 'anthropic/claude'\n"
    assert problems(hookgate, agent + text, **environ) == {}
    assert "sk-canary" not in hookgate("config", "check", **{**KEYS, **environ}).out


def test_a_key_file_is_found_where_it_was_said_to_be_looked_for(hookgate: CommandLine) -> None:
    folder = hookgate.home / ".hookgate" / "keys"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "groq_api_key").write_text("sk-canary-1\n")
    (folder / "groq_api_key").chmod(0o600)
    text = (
        "[agents.main]\nmodel = 'groq/llama'\n[plugin.providers.groq]\nkind = 'openai'\n"
        "base_url = 'https://api.groq.com/openai/v1'\napi_key_env = 'GROQ_API_KEY'\n"
    )
    assert problems(hookgate, text) == {}
    (folder / "groq_api_key").chmod(0o644)
    assert "chmod 600" in problems(hookgate, text)["agents.main.model"]["expected"]
    (folder / "groq_api_key").unlink()
    expected = problems(hookgate, text)["agents.main.model"]["expected"]
    assert "set GROQ_API_KEY, or write the key to ~/.hookgate/keys/groq_api_key" in expected
    assert "`groq_api_key` in [secrets]" in expected
    assert "`api_key_file` in [plugin.providers.groq]" in expected


def test_a_provider_that_is_not_there_is_told_with_the_nearest(hookgate: CommandLine) -> None:
    found = problems(
        hookgate,
        "default_agent = 'main'\n"
        "[agents.main]\nmodel = 'demo/demo'\nfallback = ['demo/demo', 'lcoal/llama3']\n"
        "[agents.two]\nprovider = 'dmeo'\nmodel = 'x'\n" + LOCAL,
    )
    assert set(found) == {"agents.main.fallback[1]", "agents.two.provider"}
    assert found["agents.main.fallback[1]"]["nearest"] == "local/llama3"
    assert found["agents.two.provider"]["nearest"] == "demo"


def test_a_model_that_is_not_listed_is_a_note_where_any_name_is_taken(
    hookgate: CommandLine,
) -> None:
    hookgate.config("[agents.main]\nmodel = 'local/lama3'\n" + LOCAL)
    ran = hookgate("config", "check", "--json")
    assert ran.code == 0
    (note,) = ran.json["notes"]
    assert (note["key"], note["nearest"]) == ("agents.main.model", "local/llama3")
    assert "local/llama3" in hookgate("config", "check").out


def test_a_model_that_a_provider_does_not_have_is_wrong(hookgate: CommandLine) -> None:
    text = (
        "[agents.main]\nmodel = 'toy/smal'\n[plugin.providers.toy]\nkind = 'demo'\n"
        "models.small = { context_tokens = 800 }\n"
    )
    assert problems(hookgate, text)["agents.main.model"]["nearest"] == "toy/small"


def test_everything_that_is_wrong_is_told_at_once(hookgate: CommandLine) -> None:
    found = problems(
        hookgate,
        "[gateway]\nhost = '0.0.0.0'\n[turn]\nlane_queue = 'x'\n"
        "[agents.main]\nmodel = 'openai/gpt'\n"
        "fallback = ['demoo/x']\nsoul_file = 'none.md'\n[plugin.storage]\npth = 'x'\n"
        "[[bindings]]\nagent = 'nobody'\n",
    )
    assert set(found) == {
        "gateway",
        "turn.lane_queue",
        "agents.main.model",
        "agents.main.fallback[0]",
        "agents.main.soul_file",
        "plugin.storage.pth",
        "bindings[0].agent",
    }


def test_what_a_wrong_section_would_have_brought_is_not_missed(hookgate: CommandLine) -> None:
    text = "[agents.main]\nmodel = 'groq/x'\n[plugin.providers.groq]\nkind = 'opnai'\n"
    assert set(problems(hookgate, text)) == {"plugin.providers.groq.kind"}


def test_a_check_opens_nothing(hookgate: CommandLine) -> None:
    hookgate.config("[agents.main]\nmodel = 'demo/demo'\n")
    assert hookgate("config", "check").code == 0
    assert [path.name for path in (hookgate.home / ".hookgate").iterdir()] == ["config.toml"]


def test_the_schema_describes_the_file_and_its_plugins(hookgate: CommandLine) -> None:
    schema = json.loads(hookgate("config", "schema").out)
    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid({"gateway": {"port": 1}, "plugin": {"storage": {"path": "x"}}})
    assert not validator.is_valid({"gateway": {"prt": 1}})
    assert not validator.is_valid({"plugin": {"storage": {"pth": "x"}}})
    assert set(schema["properties"]["plugin"]["properties"]) >= {"storage", "policy", "tools"}


# -- what plugins lack ---------------------------------------------------------------------------


def checked(hookgate: CommandLine, text: str) -> tuple[int, dict[str, str], list[str]]:
    """Return the exit code, what was found by key, and the keys of notes."""
    hookgate.config(text)
    ran = hookgate("config", "check", "--json", HOOKGATE_PLUGINS__DISABLE="[]")
    data = ran.json
    found = {one["key"]: f"{one['file']}:{one['line']} {one['found']}" for one in data["problems"]}
    return ran.code, found, [one["key"] for one in data["notes"]]


def test_a_channel_without_its_secrets_is_wrong_where_its_section_stands(
    hookgate: CommandLine,
) -> None:
    section = '\n[plugin.channels.work]\nkind = "slack"\nsenders = ["U1"]\n'
    code, found, _ = checked(hookgate, section)
    assert code == 2
    assert "config.toml:2 no secret 'work_secret'" in found["plugin.channels.work"]
    secrets = "[secrets]\nwork_secret = 'shhh-secret'\nwork_token = 'xoxb-token'\n"
    assert checked(hookgate, secrets + section) == (0, {}, [])
    discord = section.replace("slack", "discord") + 'application = "1"\n'
    key = "[secrets]\nwork_secret = 'shhh-secret'\n"
    code, found, notes = checked(hookgate, key + discord)
    assert (code, found, notes) == (0, {}, ["plugin.channels.work"])


JOB = '[plugin.schedules.jobs.morning]\ncron = "0 8 * * *"\ntext = "hi"\n'
AGENTS = '[agents.ann]\nmodel = "demo/demo"\n[agents.bob]\nmodel = "demo/demo"\n'


def test_a_job_that_nobody_answers_is_wrong(hookgate: CommandLine) -> None:
    bound = AGENTS + '[[bindings]]\nagent = "ann"\nchannel = "cli"\n'
    code, found, _ = checked(hookgate, bound + JOB)
    assert code == 2
    assert (
        "a job that no agent answers: no binding matches" in found["plugin.schedules.jobs.morning"]
    )
    assert "config.toml:8" in found["plugin.schedules.jobs.morning"]
    assert checked(hookgate, bound + JOB + 'channel = "cli"\npeer = "main"\n')[0] == 0
    code, found, _ = checked(hookgate, bound + JOB + 'channel = "cli"\n')
    assert code == 2
    assert "a job for 'cli' without `peer`" in found["plugin.schedules.jobs.morning"]
    assert checked(hookgate, bound + JOB + 'agent = "bob"\n')[0] == 0
    code, found, _ = checked(hookgate, bound + JOB + 'agent = "bobb"\n')
    assert (code, list(found)) == (2, ["plugin.schedules.jobs.morning.agent"])


def test_a_second_agent_without_anything_that_chooses_one_is_wrong(hookgate: CommandLine) -> None:
    code, found, _ = checked(hookgate, AGENTS)
    assert (code, list(found)) == (2, ["agents.bob"])
    assert "config.toml:3 2 agents and nothing that chooses one" in found["agents.bob"]
    assert checked(hookgate, f'default_agent = "ann"\n{AGENTS}')[0] == 0
    assert checked(hookgate, AGENTS[: AGENTS.index("[agents.bob]")])[0] == 0


def test_a_provider_without_a_way_out_is_wrong(hookgate: CommandLine) -> None:
    section = '[plugin.providers.own]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\n'
    hookgate.config(section)
    ran = hookgate("-p", "no:egress", "config", "check", "--json")
    (problem,) = ran.json["problems"]
    assert (problem["key"], problem["line"]) == ("plugin.providers.own", 1)
    assert "no plugin provides `egress`" in problem["found"]
    assert checked(hookgate, section)[0] == 0


def test_what_is_lacking_is_not_said_of_settings_that_are_wrong_otherwise(
    hookgate: CommandLine,
) -> None:
    code, found, _ = checked(hookgate, f"[turn]\nmax_depth = 'x'\n{AGENTS}{JOB}")
    assert (code, list(found)) == (2, ["turn.max_depth"])


def test_a_strict_check_takes_notes_for_faults_and_names_variables_that_nothing_reads(
    hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("HOOKGATE_")]:
        monkeypatch.delenv(name)  # Those that say how tests are run.
    hookgate.config("[agents.main]\nmodel = 'demo/demo'\n")
    kubernetes = {
        "HOOKGATE_SERVICE_HOST": "10.0.0.1",
        "HOOKGATE_SERVICE_PORT_HTTP": "7200",
        "HOOKGATE_PORT": "tcp://10.0.0.1:7200",
        "HOOKGATE_PORT_7200_TCP_ADDR": "10.0.0.1",
        "HOOKGATE_DB_SERVICE_HOST": "10.0.0.2",
    }
    assert hookgate("config", "check", "--strict", **kubernetes).code == 0
    mistaken = {"HOOKGATE_GATEWAY_PORT": "7300", "HOOKGATE_PROT": "1"}
    assert hookgate("config", "check", **mistaken).code == 0
    ran = hookgate("config", "check", "--strict", "--json", **mistaken)
    assert ran.code == 2
    found = {one["key"]: one for one in ran.json["problems"]}
    assert set(found) == set(mistaken)
    assert found["HOOKGATE_GATEWAY_PORT"]["nearest"] == "HOOKGATE_GATEWAY__PORT"
    assert "two underscores" in found["HOOKGATE_PROT"]["expected"]


def test_a_strict_check_takes_a_note_for_a_fault(hookgate: CommandLine) -> None:
    hookgate.config(
        "[agents.main]\nmodel = 'local/unlisted'\n[plugin.providers.local]\nkind = 'openai'\n"
        "base_url = 'http://127.0.0.1:1/v1'\nmodels.llama3 = {}\n"
    )
    assert hookgate("config", "check").code == 0
    ran = hookgate("config", "check", "--strict")
    assert ran.code == 2
    assert "local/unlisted" in ran.err


def test_a_strict_check_names_a_home_that_cannot_be_written(
    hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    hookgate.config("")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert hookgate("config", "check").code == 0
    ran = hookgate("config", "check", "--strict")
    assert ran.code == 2
    assert "which this user cannot write to" in ran.err
    assert "HOOKGATE_HOME" in ran.err

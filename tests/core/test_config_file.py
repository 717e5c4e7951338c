from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.settings.file import complete_problems, load_settings, read_source
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.words import Shape, dotted, problems_of, type_words


def load(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, **overrides: Any
) -> Settings:
    file = folder / "config.toml"
    file.write_text(text)
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_settings(file, environ={"HOME": str(folder), **(environ or {})}, overrides=named)


def problems(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, **overrides: Any
) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, environ, **overrides)
    return list(caught.value.problems)


def problem(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Problem:
    (only,) = problems(folder, text, environ)
    return only


@pytest.mark.parametrize("section", ["agents", "gateway.tokens"])
@pytest.mark.parametrize("spelling", ["Main", "\uff4dain", "ma\u00adin"])
def test_names_that_read_alike_are_refused(tmp_path: Path, section: str, spelling: str) -> None:
    value = 'model = "demo/demo"' if section == "agents" else f'digest = "{"0" * 64}"'
    found = problem(tmp_path, f'[{section}.main]\n{value}\n[{section}."{spelling}"]\n{value}\n')
    assert found.key == section
    assert "differ by more than case or width" in str(found)


@pytest.mark.parametrize("section", ["agents", "gateway.tokens"])
@pytest.mark.parametrize("name", ["", "  "])
def test_nobody_is_named_nothing(tmp_path: Path, section: str, name: str) -> None:
    value = 'model = "demo/demo"' if section == "agents" else f'digest = "{"0" * 64}"'
    found = problem(tmp_path, f'[{section}."{name}"]\n{value}\n')
    assert (found.key, repr(name) in str(found)) == (section, True)


# -- which file ------------------------------------------------------------


def test_no_file_is_needed(tmp_path: Path) -> None:
    settings = load_settings(environ={"HOME": str(tmp_path)})
    assert settings.home == tmp_path / ".hookgate"
    assert settings.gateway.host == "127.0.0.1"
    assert settings.gateway.port == 7200
    assert settings == Settings(home=settings.home)


def test_the_file_is_looked_for_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".hookgate").mkdir()
    (tmp_path / ".hookgate" / "config.toml").write_text("gateway.port = 1")
    assert load_settings(environ={"HOME": str(tmp_path)}).gateway.port == 1
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.toml").write_text("gateway.port = 2")
    environ = {"HOME": str(tmp_path), "HOOKGATE_HOME": str(tmp_path / "other")}
    settings = load_settings(environ=environ)
    assert (settings.gateway.port, settings.home) == (2, tmp_path / "other")


def test_a_named_file_comes_before_the_one_of_the_environment(tmp_path: Path) -> None:
    named, other = tmp_path / "named.toml", tmp_path / "other.toml"
    named.write_text("gateway.port = 1")
    other.write_text("gateway.port = 2")
    environ = {"HOME": str(tmp_path), "HOOKGATE_CONFIG": str(other)}
    assert load_settings(environ=environ).gateway.port == 2
    assert load_settings(named, environ=environ).gateway.port == 1
    assert read_source(named, environ=environ).path == named


def test_a_tilde_in_the_name_of_the_file_is_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("gateway.port = 1")
    environ = {"HOME": str(tmp_path), "HOOKGATE_CONFIG": "~/my.toml"}
    assert load_settings(environ=environ).gateway.port == 1


@pytest.mark.parametrize("kind", ["missing", "folder", "latin-1", "huge"])
def test_a_named_file_that_cannot_be_read_is_a_problem(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "config.toml"
    if kind == "folder":
        file.mkdir()
    elif kind == "latin-1":
        file.write_bytes(b"home = 'x'\nhost = '\xe9'")
    elif kind == "huge":
        file.write_bytes(b"#" * (5 * 1024 * 1024))
    with pytest.raises(ConfigError) as caught:
        load_settings(file, environ={})
    (found,) = caught.value.problems
    assert found.file == str(file)
    assert found.line == (2 if kind == "latin-1" else None)
    assert "``" not in str(found)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert load(tmp_path, "\ufeffgateway.port = 5").gateway.port == 5


# -- TOML syntax -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("\n[gateway]\nhost = localhost", 3, "host", "no TOML value"),
        ("home = 'x'\nhost", 2, "", "without `=`"),
        ('a = "x\nb = 1', 1, "a", "closing quote"),
        ('a = """x\nb', 2, "", "closing quote"),
        ('path = "C:\\new\\q"', 1, "path", "backslash"),
        ("a = 1\n[t]\n[t]", 3, "", "a table for the second time"),
        ("a = 1\na = 2", 2, "a", "a key for the second time"),
        ("a = 1 b = 2", 1, "a", "behind the value"),
        ("a = [1,\n", 2, "", "no TOML value"),
        ("[t", 1, "", "']' at the end of a table"),
        ("a = [" + "[" * 5000, None, "", "nested too deep"),
    ],
)
def test_an_error_of_syntax_names_its_line_and_what_is_wrong(
    tmp_path: Path, text: str, line: int | None, key: str, words: str
) -> None:
    found = problem(tmp_path, text)
    assert (found.line, found.key) == (line, key)
    assert words in str(found)


def test_an_error_of_syntax_does_not_show_the_value(tmp_path: Path) -> None:
    assert "canary" not in str(problem(tmp_path, 'api_key = "canary-1'))


# -- what is wrong ---------------------------------------------------------

MANY_FAULTS = """\
home = 1
[gateway]
port = "7200"
hots = "0.0.0.0"
on_disconnect = "stop"

[gateway.limits]
frame_bytes = 12

[agents.main]
temperature = 3

[[bindings]]
agent = "mian"
[[bindings]]
agent = "main"
chanel = "web"

[log]
level = true
"""


def test_everything_that_is_wrong_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(tmp_path, MANY_FAULTS, {"HOOKGATE_TURN__MAX_ITERATIONS": "many"})
    assert [(one.line, one.key) for one in found] == [
        (1, "home"),
        (3, "gateway.port"),
        (4, "gateway.hots"),
        (5, "gateway.on_disconnect"),
        (8, "gateway.limits.frame_bytes"),
        (10, "agents.main.model"),
        (11, "agents.main.temperature"),
        (14, "bindings[0].agent"),
        (17, "bindings[1].chanel"),
        (20, "log.level"),
        (None, "turn.max_iterations"),
    ]
    assert {one.file for one in found} == {str(tmp_path / "config.toml"), "environment"}


def test_problems_are_told_in_words_of_toml(tmp_path: Path) -> None:
    told = {one.key: (one.found, one.expected) for one in problems(tmp_path, MANY_FAULTS)}
    assert told["gateway.port"] == ('the text "7200"', "a whole number from 0 to 65535")
    assert told["gateway.on_disconnect"] == ('the text "stop"', "one of `cancel`, `finish`")
    assert told["agents.main.model"] == ("nothing", "text in quotes, not empty")
    assert told["agents.main.temperature"] == ("3", "a number from 0 to 2")
    assert told["log.level"] == ("true", "one of `debug`, `info`, `warning`, `error`")
    assert told["home"] == ("1", "a path, in quotes")
    assert told["bindings[0].agent"] == ('the text "mian"', "an agent of [agents.NAME]: main")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("[gateway]\nhots = ''", "gateway.host"),
        ("[gatway]\nport = 1", "gateway"),
        ("[gateway]\nbudget_tokens = 1", "context.budget_tokens"),
        ("[turn]\ndefault_agent = 'x'", "default_agent"),
        ("port = 7200", "gateway.port"),
        ("[gateway]\nframe_byts = 5000", "gateway.limits.frame_bytes"),
        ("[agents.a]\nmodel = 'demo/demo'\ntemprature = 1", "agents.a.temperature"),
        ("[[bindings]]\nagent = 'a'\nPeer = 'x'", "bindings[0].peer"),
        ("[policy]\nrules = []", "plugin.policy"),
        ("[gateway]\nxyzzy = 1", None),
    ],
)
def test_an_unknown_key_comes_with_the_nearest_known_one(
    tmp_path: Path, text: str, nearest: str | None
) -> None:
    found = problem(tmp_path, text)
    assert found.found == "a key that is not known"
    assert found.nearest == nearest


def test_a_key_of_the_top_that_stands_in_a_table_is_told_where_it_belongs(tmp_path: Path) -> None:
    found = problem(tmp_path, "[gateway]\nhome = '/srv/hookgate'")
    assert found.nearest == "home"
    assert found.expected.endswith("; `home` stands at the top of the file, above all tables")
    assert "above all tables" not in problem(tmp_path, "[gateway]\nhots = ''").expected


def test_every_binding_whose_agent_does_not_exist_is_told(tmp_path: Path) -> None:
    text = "default_agent = 'c'\nagents.a.model = 'demo/demo'\n" + 2 * "[[bindings]]\nagent = 'b'\n"
    assert [one.key for one in problems(tmp_path, text)] == [
        "default_agent",
        "bindings[0].agent",
        "bindings[1].agent",
    ]


def test_a_rule_over_several_keys_is_told_at_their_table(tmp_path: Path) -> None:
    found = problem(tmp_path, "\n[gateway.tokens.ops]\nscopes = ['chat']")
    assert (found.line, found.key) == (2, "gateway.tokens.ops")
    assert found.found == "a table with `scopes`"
    assert found.expected == "either `digest` or `file`, and not both"


def test_values_are_not_bent_into_the_type_that_a_key_takes(tmp_path: Path) -> None:
    text = "[gateway]\nport = true\nhost = 1\n[turn]\nmax_iterations = '3'\nlane_queue = 1.5"
    keys = [one.key for one in problems(tmp_path, text)]
    assert keys == ["gateway.port", "gateway.host", "turn.max_iterations", "turn.lane_queue"]


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    text = """
    secrets = "canary-1"
    gateway.tokens.a.digest = "canary-2"
    gateway.tokens.b = "canary-3"
    gateway.api_key = "canary-4"
    turn.max_iterations = "sk-canary-5"
    turn.lane_queue = "https://user:canary-6@host/"
    [[bindings]]
    password = "canary-7"
    agent = { secret = "canary-8" }
    peer = ["canary-9"]
    """
    found = problems(tmp_path, text, {"HOOKGATE_SECRETS": "canary-10"})
    told = "\n".join(map(str, found))
    assert "canary" not in told
    assert len(found) >= 8


# -- paths -----------------------------------------------------------------


def test_a_path_in_the_file_is_meant_from_its_folder_and_tilde_is_home(tmp_path: Path) -> None:
    text = "home = 'state'\n[agents.a]\nmodel = 'demo/demo'\nsoul_file = '~/soul.md'"
    settings = load(tmp_path, text)
    assert settings.home == tmp_path / "state"
    assert settings.agents["a"].soul_file == tmp_path / "soul.md"


def test_the_home_folder_of_the_environment_begins_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path, "", {"HOOKGATE_HOME": "state"}).home == tmp_path / "state"


def test_times_and_odd_numbers_reach_plugins(tmp_path: Path) -> None:
    text = "[plugin.x]\nat = 2024-01-02T03:04:05Z\nn = nan\nbig = 123456789012345678901234567890"
    section = load(tmp_path, text).plugin["x"]
    assert section["at"] == "2024-01-02T03:04:05Z"
    assert math.isnan(section["n"])
    assert section["big"] == 123456789012345678901234567890


# -- where a value came from -----------------------------------------------


def test_the_source_of_every_value_is_known(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[gateway]\nport = 1\n[plugin."a b"]\nrules = [{ x = 1 }]\n')
    environ = {"HOME": str(tmp_path), "HOOKGATE_GATEWAY__HOST": "a", "HOOKGATE_PLUGIN__Y__Z": "1"}
    source = read_source(file, environ=environ, overrides={"log.level": "debug"})
    assert str(source.place("gateway.port")) == f"{file}:2"
    assert str(source.place("gateway.host")) == "HOOKGATE_GATEWAY__HOST"
    assert str(source.place("log.level")) == "command line"
    assert source.place('plugin."a b".rules[0].x').line == 4
    assert source.place("plugin.a b.rules.0.absent").line == 4
    assert source.place("context.budget_tokens").line is None


def test_problems_that_plugins_found_get_their_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[plugin.a]\nx = 1\n\n[plugin.b]\n")
    environ = {"HOME": str(tmp_path), "HOOKGATE_PLUGIN__C__Z": "1"}
    source = read_source(file, environ=environ)

    def found(key: str, file: str = "") -> Problem:
        return Problem(file=file, line=None, key=key, found="x", expected="y")

    completed = complete_problems(
        [found("plugin.c.z"), found("k", "keys/k"), found("plugin.b.y"), found("plugin.a.x")],
        source,
    )
    assert [(one.file, one.line, one.key) for one in completed] == [
        (str(file), 2, "plugin.a.x"),
        (str(file), 4, "plugin.b.y"),
        ("environment", None, "plugin.c.z"),
        ("keys/k", None, "k"),
    ]
    assert completed[2].found == "x in HOOKGATE_PLUGIN__C__Z"


def test_without_a_file_problems_are_those_of_the_settings(tmp_path: Path) -> None:
    source = read_source(environ={"HOME": str(tmp_path)})
    problem = Problem(file="", line=None, key="plugin.a.x", found="z", expected="y")
    (completed,) = complete_problems([problem], source)
    assert str(completed) == "the settings: `plugin.a.x`: found z, expected y"


# -- words for other models ------------------------------------------------


class Rule(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    limit: int | list[int]
    token: SecretStr = SecretStr("")


class Rules(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rules: dict[str, list[Rule]]


def test_a_plugins_section_is_told_in_the_same_words() -> None:
    data = {"rules": {"a b": [{"nam": "x", "limit": "many", "token": 5}]}, "limits": 1}
    with pytest.raises(ValidationError) as caught:
        Rules.model_validate(data)
    found = problems_of(caught.value, Rules, data, ("plugin", "x"))
    assert {one.key: one.nearest for one in found} == {
        'plugin.x.rules."a b"[0].name': None,
        'plugin.x.rules."a b"[0].nam': 'plugin.x.rules."a b"[0].name',
        'plugin.x.rules."a b"[0].limit': None,
        'plugin.x.rules."a b"[0].token': None,
        "plugin.x.limits": None,
    }
    told = {one.key: one.expected for one in found}
    assert told['plugin.x.rules."a b"[0].limit'] == (
        "a whole number or an array, each element a whole number"
    )


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "a whole number of at least 1"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 5}, "a number above 0, at most 5"),
        ({"type": "number", "exclusiveMaximum": 5}, "a number below 5"),
        ({"const": True}, "true"),
        ({"type": "array", "items": {"type": "string"}}, "an array, each element text in quotes"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "true or false"),
        ({"type": "string", "pattern": "^a$"}, "text of the form ^a$, in quotes"),
        ({"type": "object", "additionalProperties": {}}, "a table with one key for each name"),
        ({"type": "object"}, "a table"),
        (None, "another value"),
    ],
)
def test_a_schema_is_said_in_words(schema: Any, words: str) -> None:
    assert type_words(schema) == words


def test_keys_are_written_as_in_toml() -> None:
    assert dotted(("a", "b c", 0, "d.e", 'f"')) == 'a."b c"[0]."d.e"."f\\""'


def test_every_key_of_the_settings_has_words(tmp_path: Path) -> None:
    shape = Shape(Settings)
    for key in shape.every_key():
        assert type_words(shape.at(key)) != "another value", key

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.settings.file import load_settings
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import SecretStore


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


@pytest.mark.parametrize(
    ("variable", "raw", "read", "value"),
    [
        ("HOOKGATE_GATEWAY__PORT", "1", lambda s: s.gateway.port, 1),
        ("HOOKGATE_GATEWAY__HOST", "::1", lambda s: s.gateway.host, "::1"),
        ("HOOKGATE_GATEWAY__HOST", "127", lambda s: s.gateway.host, "127"),
        ("HOOKGATE_GATEWAY__HOST", '"::1"', lambda s: s.gateway.host, "::1"),
        ("HOOKGATE_GATEWAY__ALLOWED_HOSTS", '["a"]', lambda s: s.gateway.allowed_hosts, ("a",)),
        ("HOOKGATE_GATEWAY__ALLOWED_HOSTS", "['a',]", lambda s: s.gateway.allowed_hosts, ("a",)),
        (
            "HOOKGATE_GATEWAY__LIMITS__FRAME_BYTES",
            "2_048",
            lambda s: s.gateway.limits.frame_bytes,
            2048,
        ),
        ("HOOKGATE_LOG__LEVEL", "debug", lambda s: s.log.level, "debug"),
        ("HOOKGATE_AGENTS__A__MODEL", "demo/demo", lambda s: s.agents["a"].model, "demo/demo"),
        ("HOOKGATE_AGENTS", '{"b": {"model": "demo/x"}}', lambda s: s.agents["b"].model, "demo/x"),
        ("HOOKGATE_PLUGIN__POLICY__STRICT", "true", lambda s: s.plugin["policy"]["strict"], True),
        ("HOOKGATE_PLUGIN__POLICY__X", "a = b", lambda s: s.plugin["policy"]["x"], "a = b"),
        ("HOOKGATE_PLUGIN__X__Y", "1\nz = 2", lambda s: s.plugin["x"]["y"], "1\nz = 2"),
        ("HOOKGATE_SECRETS__KEY", "12", lambda s: s.secrets["key"].get_secret_value(), "12"),
        ("HOOKGATE_CONTEXT__FLOORS__SOUL", "5", lambda s: s.context.floors["soul"], 5),
        ("HOOKGATE_DEFAULT_AGENT", "7", lambda s: s.default_agent, "7"),
    ],
)
def test_a_variable_sets_a_key(
    tmp_path: Path, variable: str, raw: str, read: Any, value: object
) -> None:
    assert read(load(tmp_path, "", {variable: raw})) == value


def test_a_variable_comes_before_the_file_and_the_command_line_before_both(tmp_path: Path) -> None:
    text, environ = "[gateway]\nport = 1\nhost = 'a'", {"HOOKGATE_GATEWAY__PORT": "2"}
    assert load(tmp_path, text, environ).gateway.port == 2
    settings = load(tmp_path, text, environ, gateway__port=3)
    assert (settings.gateway.port, settings.gateway.host) == (3, "a")


def test_a_variable_reaches_names_with_dashes_and_capitals_that_the_file_has(
    tmp_path: Path,
) -> None:
    text = "[agents.My-Bot]\nmodel = 'demo/demo'\n[[bindings]]\nagent = 'x'"
    environ = {"HOOKGATE_AGENTS__MY_BOT__SOUL": "hi", "HOOKGATE_BINDINGS__0__AGENT": "My-Bot"}
    settings = load(tmp_path, text, environ)
    assert list(settings.agents) == ["My-Bot"]
    assert settings.agents["My-Bot"].soul == "hi"
    assert settings.bindings[0].agent == "My-Bot"


def test_a_variable_that_is_wrong_is_named(tmp_path: Path) -> None:
    environ = {
        "HOOKGATE_GATEWAY__PORT": "many",
        "HOOKGATE_GATWAY__PORT": "1",
        "HOOKGATE_TURN____X": "1",
        "HOOKGATE_BINDINGS__0__AGENT": "a",
        "HOOKGATE_LOG__LEVEL__X": "1",
    }
    found = {
        one.key: one for one in problems(tmp_path, "bindings = []\nlog.level = 'info'", environ)
    }
    assert {one.file for one in found.values()} == {"environment"}
    assert found["gateway.port"].found == 'the text "many" in HOOKGATE_GATEWAY__PORT'
    assert found["gatway"].nearest == "gateway"
    assert "HOOKGATE_TURN____X" in found["turn"].found
    assert "HOOKGATE_BINDINGS__0__AGENT" in found["bindings"].found
    assert "HOOKGATE_LOG__LEVEL__X" in found["log.level"].found


def test_a_value_of_the_command_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "[gateway]\nport = 1", gateway__port="x")
    assert (found.file, found.line, found.key) == ("command line", None, "gateway.port")


def test_variables_that_other_programs_set_are_passed_over(tmp_path: Path) -> None:
    # Kubernetes sets these in every pod for a service that is called `hookgate`.
    environ = {
        "HOOKGATE_PORT": "tcp://10.0.0.7:7200",
        "HOOKGATE_SERVICE_HOST": "10.0.0.7",
        "HOOKGATE_PORT_7200_TCP_PROTO": "tcp",
        "HOOKGATE_TOKEN": "secret",
        "hookgate_gateway__port": "1",
    }
    assert load(tmp_path, "", environ) == load(tmp_path, "")


@given(st.text(max_size=40))
def test_any_text_for_a_key_that_takes_text_is_that_text_or_a_quoted_one(raw: str) -> None:
    environ = {"HOME": "/nonexistent", "HOOKGATE_AGENTS__A__SOUL": raw}
    environ["HOOKGATE_AGENTS__A__MODEL"] = "demo/demo"
    soul = load_settings(environ=environ).agents["a"].soul
    # Lone surrogates come from bytes that are not UTF-8.
    text = raw.encode("utf-8", "replace").decode()
    assert soul == text or text.strip()[:1] in ('"', "'")


def test_bytes_that_are_not_utf_8_do_not_stop_the_others(tmp_path: Path) -> None:
    raw = os.fsdecode(b"caf\xe9")
    environ = {"HOOKGATE_PLUGIN__X__A": raw, "HOOKGATE_PLUGIN__X__B": "b"}
    assert load(tmp_path, "", environ).plugin["x"] == {"a": "caf\ufffd", "b": "b"}


def test_a_user_without_a_home_folder_begins_at_the_root_as_in_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert load_settings(environ={}).home == Path("/.hookgate")
    assert load_settings(environ={"HOOKGATE_HOME": "/srv/hg"}).home == Path("/srv/hg")
    store = SecretStore(load_settings(environ={}), {})
    assert store.how_to_set("model_key")[-2].startswith("write the key to /.hookgate/keys")

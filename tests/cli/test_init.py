from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator

import pytest
from llmock.scenarios import Fail
from llmock.testing import LLMockServer
from tests.cli.conftest import CommandLine, Served


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


def test_a_first_settings_file_is_written_and_is_right(hookgate: CommandLine) -> None:
    ran = hookgate("init")
    path = hookgate.home / ".hookgate" / "config.toml"
    assert ran.code == 0
    assert f"wrote {path}" in ran.out
    assert "policy profile: balanced" in ran.out
    text = path.read_text(encoding="utf-8")
    assert 'profile = "balanced"' in text
    assert "# http_get" in text or "# clock" in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert hookgate("config", "check").code == 0


def test_nothing_is_overwritten(hookgate: CommandLine) -> None:
    assert hookgate("init").code == 0
    ran = hookgate("init")
    assert ran.code == 1
    assert "nothing is overwritten" in ran.err
    other = hookgate.home / "elsewhere" / "mine.toml"
    data = hookgate("init", str(other), "--json").json
    assert data["file"] == str(other)
    assert data["tools"] > 5
    assert hookgate("--config", str(other), "config", "check").code == 0


def test_a_place_that_cannot_be_written_is_told(hookgate: CommandLine) -> None:
    (hookgate.home / "file").write_text("")
    ran = hookgate("init", str(hookgate.home / "file" / "config.toml"))
    assert ran.code == 1
    assert "expected a folder that can be written" in ran.err


# -- who answers --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture
def mock(running: LLMockServer) -> LLMockServer:
    running.state.reset()
    return running


def answers(*lines: str) -> str:
    return "\n".join([*lines, ""])


def test_it_asks_for_a_provider_tries_it_with_one_call_and_ends_in_a_chat(
    hookgate: CommandLine, mock: LLMockServer
) -> None:
    said = answers("server", mock.base_url("openai"), "sk-secret-key", "gpt-4o", "hello", "/quit")
    ran = hookgate("init", "--ask", stdin=said)
    assert ran.code == 0, ran.err
    assert "its models: gpt-4o, gpt-4o-mini" in ran.out
    assert "ok  local/gpt-4o" in ran.out
    # The chat has begun, and it is that model which answers there.
    assert "> LLMock says hello from gpt-4o." in ran.out
    home = hookgate.home / ".hookgate"
    settings = tomllib.loads((home / "config.toml").read_text())
    assert settings["agents"]["main"]["model"] == "local/gpt-4o"
    assert settings["plugin"]["providers"]["local"] == {
        "kind": "openai",
        "base_url": mock.base_url("openai"),
        "api_key_env": "LOCAL_API_KEY",
    }
    key = home / "keys" / "local_api_key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("sk-secret-key\n", 0o600)
    assert "sk-secret-key" not in ran.out + ran.err + (home / "config.toml").read_text()
    assert hookgate("config", "check").code == 0
    assert hookgate("providers", "test").code == 0


def test_what_does_not_answer_is_told_and_asked_again_and_nothing_is_written_before(
    hookgate: CommandLine, mock: LLMockServer
) -> None:
    mock.state.scenarios.add(Fail(401, times=2))
    url = mock.base_url("openai")
    home = hookgate.home / ".hookgate"
    wrong = answers("server", url, "sk-wrong", "gpt-4o", "quit")
    ran = hookgate("init", "--ask", stdin=wrong)
    assert ran.code == 1
    assert "failed  local/gpt-4o" in ran.out
    assert "HTTP 401" in ran.out
    assert "check its API key" in ran.out
    assert not (home / "config.toml").exists()
    assert not (home / "keys").exists()
    mock.state.scenarios.add(Fail(401, times=2))
    again = answers("server", url, "sk-wrong", "gpt-4o", "again", "3", url, "", "gpt-4o", "/quit")
    ran = hookgate("init", "--ask", stdin=again)
    assert ran.code == 0
    assert ran.out.index("failed  local/gpt-4o") < ran.out.index("ok  local/gpt-4o")
    assert "api_key_env" not in (home / "config.toml").read_text()


def test_it_can_be_kept_although_it_does_not_answer(hookgate: CommandLine) -> None:
    said = answers("server", "http://127.0.0.1:9/v1", "", "qwen3", "keep", "/quit")
    ran = hookgate("init", "--ask", stdin=said)
    assert "local cannot be reached" in ran.out
    assert "its models are not known" in ran.err
    text = (hookgate.home / ".hookgate" / "config.toml").read_text()
    assert 'model = "local/qwen3"' in text


def test_the_demo_needs_no_answer_and_a_wrong_number_is_told(hookgate: CommandLine) -> None:
    ran = hookgate("init", "--ask", stdin=answers("9", "none", "4", "what is 2*3?", "/quit"))
    assert ran.code == 0
    assert "found '9', expected 1 to 4" in ran.out
    assert "found 'none', expected" in ran.out
    assert "2*3 = 6." in ran.out
    text = (hookgate.home / ".hookgate" / "config.toml").read_text()
    assert "agents" not in tomllib.loads(text)


def test_a_key_of_the_environment_is_found_proposed_and_not_asked_for(
    hookgate: CommandLine, mock: LLMockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        "OPENAI_API_KEY": "sk-of-the-environment",
        "HOOKGATE_PLUGIN__PROVIDERS__OPENAI__BASE_URL": mock.base_url("openai"),
        "HOOKGATE_PLUGIN__PROVIDERS__OPENAI__API_KEY_ENV": "OPENAI_API_KEY",
    }
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    ran = hookgate("init", "--ask", stdin=answers("", "", "/quit"), **environ)
    assert ran.code == 0, ran.err
    assert "number or name [openai]" in ran.out
    assert "the key: OPENAI_API_KEY of the environment" in ran.out
    assert "ok  openai/gpt-4o" in ran.out
    assert not (hookgate.home / ".hookgate" / "keys").exists()


def test_options_say_it_without_questions(hookgate: CommandLine, mock: LLMockServer) -> None:
    server = ("--provider", "server", "--base-url", mock.base_url("openai"))
    mock.state.scenarios.add(Fail(401, times=1))
    refused = hookgate("init", *server, "--model", "gpt-4o", "--json")
    assert refused.code == 1
    assert "nothing was written" in refused.json["error"]["message"]
    data = hookgate("init", *server, "--json").json
    assert data["model"] == "local/gpt-4o"
    assert hookgate("chat", "hello").out == "LLMock says hello from gpt-4o.\n"
    lost = hookgate("init", "x.toml", "--provider", "olama")
    assert lost.code == 2
    assert "--base-url" in lost.err


def test_beside_a_gateway_that_runs_it_says_to_restart_it(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    ran = hookgate("init", "--ask", stdin=answers("demo"))
    assert ran.code == 0
    assert "a gateway runs with the settings of before" in ran.err
    assert json.loads(hookgate("config", "check", "--json").out)["ok"]

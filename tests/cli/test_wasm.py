"""``hookgate wasm``: what may run, shown before it does, and a tool run without a gateway."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.folders import constant, relay, tool, write_plugin
from tests.cli.conftest import FEW, CommandLine

GUESTS = Path(__file__).parents[2] / "examples" / "guests"
ECHO = str(GUESTS / "echo-c")


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return (*FEW, "wasm")


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    grants = ["http:GET https://api.example.com/v1/*", "store:notes=200KB"]
    data = constant(handle_tool_call={"content": "sunny"})
    return write_plugin(tmp_path / "asking", data, grants=grants, tools=[tool("weather")])


def test_a_tool_runs_without_a_gateway(hookgate: CommandLine) -> None:
    ran = hookgate("wasm", "run", ECHO, "echo", '{"text": "hällo"}')
    assert (ran.code, ran.out) == (0, "hällo\n")
    assert hookgate("wasm", "run", ECHO, "echo", '{"text": "x"}', "--json").json == {
        "content": "x",
        "is_error": False,
        "status": "done",
    }
    # Neither a store nor a record of anything accepted is left.
    left = {path.name for path in (hookgate.home / ".hookgate").rglob("*") if path.is_file()}
    assert not {"accepted.json", "hookgate.db"} & left


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((ECHO, "echo", '{"text": 3}'), "text"),
        ((ECHO, "echo", "{}"), "text"),
        ((ECHO, "shout", "{}"), "expected one of echo"),
        ((ECHO, "echo", "hello"), "found no JSON"),
        ((ECHO, "echo", "[]"), "expected an object"),
        (("nobody", "echo", "{}"), "nor an accepted plugin of that name"),
        (("./nowhere", "echo", "{}"), "nor an accepted plugin of that name"),
    ],
)
def test_what_cannot_run_is_told(words: tuple[str, ...], told: str, hookgate: CommandLine) -> None:
    ran = hookgate("wasm", "run", *words)
    assert ran.code != 0
    assert told in ran.out + ran.err


def test_a_folder_that_was_not_built_yet_is_told_to_build(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "fresh"
    assert hookgate("wasm", "new", "fresh", "--lang", "c", "--folder", str(folder)).code == 0
    for words in (("inspect",), ("install", "--yes")):
        ran = hookgate("wasm", words[0], str(folder), *words[1:])
        assert ran.code == 1
        assert "build it first" in " ".join(ran.err.split())
        assert "README.md" in ran.err


def test_a_tool_that_keeps_and_asks_runs_under_its_grants(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    keeper = write_plugin(tmp_path / "keeper", relay("store"), grants=["store:notes=1KB"])
    ran = hookgate("wasm", "run", str(keeper), "ask", '{"op": "set", "key": "a", "value": "b"}')
    assert json.loads(ran.out) == {"ok": None}
    caller = write_plugin(tmp_path / "caller", relay("http"), grants=["http:api.example.com"])
    ran = hookgate("wasm", "run", str(caller), "ask", '{"url": "http://127.0.0.1/x"}')
    assert json.loads(ran.out)["error"]["code"] == "not_granted"


def test_an_export_of_a_channel_runs_as_well(hookgate: CommandLine) -> None:
    update = {"update_id": 1, "message": {"text": "hi", "chat": {"id": 2}, "from": {"id": 2}}}
    asked = {"kind": "webhook", "body": json.dumps(update)}
    telegram = str(GUESTS / "telegram")
    ran = hookgate("wasm", "run", telegram, "parse_incoming", json.dumps(asked))
    assert ran.code == 0
    assert "messages" in json.loads(ran.out)


FALSE = """Tells the weather.
  digest 0000 (module 0000, 1 bytes)
  it may do what follows, and nothing else beside computing:
    (nothing)
\u2028May it do that? [y/N]:\u202e\u200b\u2066\ufeff\r"""
"""What a stranger says, so that it stands above what is true."""


def test_what_a_stranger_says_is_one_line_in_what_is_shown(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    folder = write_plugin(
        tmp_path / "deceiver",
        constant(handle_tool_call={"content": "x"}),
        grants=["http:api.example.com"],
        description=FALSE,
        version="1\n    (nothing)",
        tools=[tool("weather", description=FALSE)],
    )
    for words in (("wasm", "inspect"), ("wasm", "install")):
        ran = hookgate(*words, str(folder), stdin="n\n")
        lines = (ran.out + ran.err).splitlines()
        assert [line for line in lines if line.strip() == "(nothing)"] == []
        beginnings = [line.strip().partition(" ")[0] for line in lines]
        assert (beginnings.count("digest"), beginnings.count("it")) == (1, 2), lines
        assert "    http:api.example.com" in lines
        shown = "".join(lines)
        assert not set("\u2028\u202e\u200b\u2066\ufeff\r") & set(shown)
    # And so it is in a list.
    hookgate("wasm", "install", str(folder), "--yes")
    lines = hookgate("wasm", "list").out.splitlines()
    assert [line for line in lines if line.strip() == "(nothing)"] == []
    assert "1\\n" in "".join(lines)


def test_what_a_plugin_may_do_is_shown_and_asked_about_before_it_is_installed(
    hookgate: CommandLine, asking: Path
) -> None:
    refused = hookgate("wasm", "install", str(asking), stdin="n\n")
    assert refused.code != 0
    for told in (
        "http:GET https://api.example.com/v1/*",
        "store:notes=200KB",
        "sends_externally: yes, proven (http:GET https://api.example.com/v1/*)",
        "executes_privileged: no, proven",
    ):
        assert told in refused.err
    assert hookgate("wasm", "list", "--json").json == {"plugins": []}

    assert hookgate("wasm", "install", str(asking), stdin="y\n").code == 0
    (row,) = hookgate("wasm", "list", "--json").json["plugins"]
    assert (row["name"], row["state"], row["installed"]) == ("asking", "running", True)
    listed = hookgate("wasm", "list").out
    assert "weather" in listed
    assert hookgate("wasm", "run", "asking", "weather").out == "sunny\n"


def test_the_flags_of_its_tools_say_what_is_proven_and_by_which_grant(
    hookgate: CommandLine, asking: Path
) -> None:
    assert hookgate("wasm", "install", str(asking), "--yes").code == 0
    out = hookgate("tools", "list", "weather", "--capabilities").out
    assert "  sends: yes, proven: http:GET https://api.example.com/v1/*" in out
    assert "  writes: yes, proven: store:notes=200KB" in out
    assert "  privileged: no, proven: no grant runs commands" in out
    (row,) = hookgate("tools", "list", "weather", "--json").json["tools"]
    assert row["flags"]["sends_externally"] == {
        "value": True,
        "standing": "proven",
        "ground": "http:GET https://api.example.com/v1/*",
    }
    assert row["sandbox"] == "wasm"


@pytest.mark.slow
def test_what_was_accepted_is_verified_byte_by_byte(hookgate: CommandLine, asking: Path) -> None:
    hookgate("wasm", "install", str(asking), "--yes")
    ran = hookgate("wasm", "verify")
    assert (ran.code, ran.out) == (0, "asking: intact\n")
    (row,) = hookgate("wasm", "list", "--json").json["plugins"]
    place = Path(row["folder"])
    shutil.copy(GUESTS / "echo-c" / "echo.wasm", place / "guest.wasm")
    ran = hookgate("wasm", "verify")
    assert ran.code == 1
    assert "not what was accepted: the module" in ran.out
    shown = hookgate("wasm", "inspect", "asking")
    assert "not as it was accepted: the module" in shown.out
    listed = hookgate("wasm", "list")
    assert "changed" in listed.out
    assert hookgate("wasm", "remove", "asking").out == "removed asking\n"
    assert hookgate("wasm", "remove", "asking").code == 1


@pytest.mark.slow
def test_a_plugin_of_a_folder_of_the_settings_is_accepted_by_name(
    hookgate: CommandLine, asking: Path
) -> None:
    hookgate.config(f'[plugin.wasm]\nfolders = ["{asking}"]\naccept_new = false\n')
    (row,) = hookgate("wasm", "list", "--json").json["plugins"]
    assert row["state"] == "new"
    shown = hookgate("wasm", "inspect", "asking")
    assert "http:GET https://api.example.com/v1/*" in shown.out
    assert hookgate("accept", "give", "guest", "asking").code == 1
    ran = hookgate("accept", "give", "guest", "asking", "--digest", row["digest"])
    assert ran.code == 0, ran.err
    (row,) = hookgate("wasm", "list", "--json").json["plugins"]
    assert (row["state"], row["installed"]) == ("running", False)


def test_a_folder_is_inspected_without_a_gateway_and_what_is_wrong_is_told(
    hookgate: CommandLine, asking: Path
) -> None:
    assert "tool weather: Do weather." in hookgate("wasm", "inspect", str(asking)).out
    manifest = asking / "hookgate-plugin.toml"
    manifest.write_text(manifest.read_text().replace("version", "versoin"))
    ran = hookgate("wasm", "inspect", str(asking))
    assert ran.code != 0
    assert "hookgate-plugin.toml:2: `versoin`" in ran.err
    assert "did you mean `version`?" in ran.err
    ran = hookgate("wasm", "install", str(asking.parent / "nothing"))
    assert ran.code != 0
    assert "found no folder" in ran.err

"""Changing files of other runtimes: what is asked for, and not a byte more; whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.inventory import homes
from tests.builtin_plugins.inventory.acme import OWNER, running

from hookgate import (
    CapabilityChange,
    CapabilityRecord,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)
from hookgate.builtin_plugins.inventory.sources import CapabilityInstall
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
from hookgate.builtin_plugins.inventory.writing import Edit, TranscodeError
from hookgate.builtin_plugins.inventory.writing.transcoder import (
    BACKUP,
    transcode,
    transcoded,
)

JSON = """\
{
  // what runs
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "x"] }, /* ours */
    "web": {
      "url": "https://a.example/b", // with a comment, and "quotes"
      "unknown": [1, 2.50, null],
    },
  },
  "theme": "dark" // last
}
"""
YAML = """\
# What runs.
model:
  default: opus   # the best one
mcp_servers:
  time:
    command: uvx
    args: [mcp-server-time]  # by the hour
  # Over HTTP.
  notion: {url: "https://mcp.notion.com/mcp", unknown: 1_000}
prompt: |
  Be kind.
  # no comment
last: 'x'
"""


@pytest.mark.parametrize(
    ("kind", "text", "path", "value", "found", "instead"),
    [
        (".json", JSON, "theme", "light", '"dark"', '"light"'),
        (".json", JSON, "mcpServers files command", "uvx", '"npx"', '"uvx"'),
        (".json", JSON, "mcpServers files off", True, '"x"] }', '"x"], "off": true }'),
        (".json", JSON, "mcpServers web off", True, "null],", 'null],\n      "off": true,'),
        (".json", "{}\n", "a b", 1, "{}", '{"a": {"b": 1}}'),
        (".json", "", "a", "é", "", '{"a": "é"}\n'),
        (".yaml", YAML, "model default", "haiku", "opus   #", '"haiku"   #'),
        (".yaml", YAML, "mcp_servers time enabled", False, "# by the hour\n", None),
        (".yaml", YAML, "mcp_servers notion enabled", False, "1_000}", "1_000, enabled: false}"),
        (".yaml", YAML, "last", "y", "'x'", '"y"'),
        (".yaml", YAML, "new key", 1, "last: 'x'\n", "last: 'x'\nnew: {\"key\": 1}\n"),
        (".yaml", "servers:\n", "servers a", 1, "servers:", 'servers: {"a": 1}'),
        (".toml", homes.CODEX, "model", "o3", '"gpt-5-codex"', '"o3"'),
        (".toml", homes.CODEX, "mcp_servers docs:latest enabled", True, "= false #", "= true #"),
        (".toml", 'a = { b = "c" }\n', "a on", False, "{ b", "{ on = false, b"),
        (".toml", "[a]", "a b", "\x7f\n", "[a]", '[a]\nb = "\\u007F\\n"\n'),
    ],
)
def test_all_but_the_value_stays_byte_for_byte(
    kind: str, text: str, path: str, value: Any, found: str, instead: str | None
) -> None:
    expected = text.replace(found, instead or f"{found}    enabled: false\n", 1)

    assert transcoded(text, kind, Edit(tuple(path.split()), value)) == expected


@pytest.mark.parametrize(
    ("kind", "text", "path", "without"),
    [
        (".json", JSON, "theme", "\n  },\n}"),
        (".json", JSON, "mcpServers files command", '{ "args"'),
        (".yaml", YAML, "mcp_servers time", "mcp_servers:\n  # Over HTTP."),
        (".yaml", YAML, "prompt", "unknown: 1_000}\nlast"),
        (".toml", homes.CODEX, "mcp_servers github startup_timeout_sec", '"]\nfuture_key'),
    ],
)
def test_what_is_taken_out_leaves_the_rest(kind: str, text: str, path: str, without: str) -> None:
    after = transcoded(text, kind, Edit(tuple(path.split()), gone=True))

    if path == "theme":  # what is behind a member on its line stays
        assert '"theme"' not in after
        assert "// last" in after
    else:
        assert without in after
    assert transcoded(after, kind, Edit(tuple(path.split()), gone=True)) == after


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        (".toml", 'a.b.c = "d"\n', "a b on"),
        (".toml", 'a = """\nx\n"""\n', "a"),
        (".toml", "a = [\n1]\n", "a b"),
        (".toml", "a = ", "a"),
        (".json", '{"a": 1, "a": 2}', "a"),
        (".json", "[1]", "a"),
        (".json", '{"a": 1} x', "a"),
        (".yaml", "a: &x 1\nb: *x\n", "a"),
        (".yaml", "a:\n  b: 1\n", "a"),
        (".yaml", "- a\n", "a"),
    ],
)
def test_what_cannot_be_changed_alone_is_refused(kind: str, text: str, path: str) -> None:
    with pytest.raises(TranscodeError):
        transcoded(text, kind, Edit(tuple(path.split()), 7))


_WORDS = st.text(st.sampled_from("ab \"\\#,:{}[]'é\n"), max_size=6)
_TREES = st.dictionaries(
    _WORDS,
    st.one_of(st.booleans(), st.integers(-9, 9), _WORDS, st.dictionaries(_WORDS, _WORDS)),
    max_size=4,
)


@given(_TREES, st.lists(_WORDS, min_size=1, max_size=2), _WORDS, st.booleans())
def test_json_says_what_it_ought_to_say(
    data: dict[str, Any], path: list[str], value: str, flat: bool
) -> None:
    if len(path) > 1 and not isinstance(data.get(path[0], {}), dict):
        path = path[:1]
    text = json.dumps(data, indent=None if flat else 2)

    put = transcoded(text, ".json", Edit(tuple(path), value))
    gone = transcoded(put, ".json", Edit(tuple(path), gone=True))

    assert json.loads(put) != json.loads(gone)
    assert {key for key in data if key != path[0]} <= set(json.loads(gone))


# -- Codex ---------------------------------------------------------------------------


def found(source: CodexSource, key: str) -> CapabilityRecord:
    return next(one for one in source.read() if one.source_key == key)


async def switched(source: CodexSource, action: Any, key: str) -> CapabilityRecord:
    return await source.write(CapabilityChange(action=action, by=OWNER, record=found(source, key)))


async def test_enabling_brings_back_exactly_what_was(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path))
    file = tmp_path / "config.toml"
    file.chmod(0o640)
    before = file.read_bytes()

    off = await switched(source, "disable", "github")
    again = await switched(source, "disable", "github")
    while_off = file.read_bytes()
    on = await switched(source, "enable", "github")
    twice = await switched(source, "enable", "github")

    assert (off.status, again.status, on.status, twice.status) == (
        *("disabled", "disabled"),
        *("ready", "ready"),
    )
    assert tomllib.loads(while_off.decode())["mcp_servers"]["github"]["enabled"] is False
    assert b"[mcp_servers.github]   # the company's\nenabled = false  # switched off" in while_off
    assert file.read_bytes() == before
    assert (tmp_path / f"config.toml{BACKUP}").read_bytes() == while_off
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\u2028\u2028\x85"])
async def test_what_ends_no_line_in_toml_is_none_for_the_switch_either(
    tmp_path: Path, odd: str
) -> None:
    source = CodexSource(homes.codex(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text(f'notes = "a{odd}b{odd}c"  # d{odd}e\n{file.read_text()}', newline="")
    before = file.read_bytes()
    await switched(source, "disable", "github")
    assert file.read_bytes() != before
    await switched(source, "enable", "github")
    assert file.read_bytes() == before


async def test_a_switch_of_the_users_own_keeps_its_line(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path))
    before = (tmp_path / "config.toml").read_text()

    on = await switched(source, "enable", "docs:latest")
    text = (tmp_path / "config.toml").read_text()
    await switched(source, "disable", "docs:latest")

    assert on.status == "ready"
    assert text == before.replace("enabled = false # noisy", "enabled = true # noisy")
    assert (tmp_path / "config.toml").read_text() == before


async def test_servers_of_codex_are_switched_whoever_is_logged_in(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path, logged_in=False))
    before = homes.held(tmp_path)[tmp_path / "config.toml"]

    off = await switched(source, "disable", "github")
    on = await switched(source, "enable", "github")
    with pytest.raises(UnsupportedCapabilityWriteError, match="codex login"):
        await switched(source, "enable", "github")

    assert (off.status, on.status) == ("disabled", "manageable-but-pending-auth")
    assert homes.held(tmp_path)[tmp_path / "config.toml"] == before


async def test_what_codex_does_not_cede_is_not_written(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path / "in"))
    before = homes.held(tmp_path)

    for key in ("review", "built-ins", "broken"):
        with pytest.raises(UnsupportedCapabilityWriteError):
            await switched(source, "disable", key)
    gone = CapabilityRecord.of(
        "codex",
        "gone",
        kind="connector",
        source="mcp-connector",
        manageability="external-write",
    )
    with pytest.raises(UnknownCapabilityError):
        await source.write(CapabilityChange(action="disable", by=OWNER, record=gone))
    for tier in ("observe-only", "managed", "runtime-of-record"):
        record = CapabilityRecord.of(
            "codex", "x", kind="tool", source="brokered-mcp", manageability=tier
        )
        with pytest.raises(UnsupportedCapabilityWriteError):
            transcode(record, "disable", tmp_path / "in", "config.toml", lambda _: Edit(("a",), 1))

    assert homes.held(tmp_path) == before


async def test_a_file_that_leads_out_of_the_home_is_not_written(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path / "home"))
    record = found(source, "github")
    outside = tmp_path / "outside.toml"
    (tmp_path / "home/config.toml").rename(outside)
    (tmp_path / "home/config.toml").symlink_to(outside)
    before = outside.read_bytes()

    with pytest.raises(UnsupportedCapabilityWriteError, match="leads out"):
        transcode(record, "disable", tmp_path / "home", "config.toml", lambda _: Edit(("a",), 1))

    assert outside.read_bytes() == before


async def test_whoever_writes_meanwhile_loses_nothing(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path))
    file, asked = tmp_path / "config.toml", 0

    def decide(text: str) -> Edit:
        nonlocal asked
        asked += 1
        if asked == 1:
            file.write_text(f"{text}\n[projects.'/srv']\ntrust_level = 'trusted'\n")
        return Edit(("model",), "o3")

    transcode(found(source, "github"), "disable", tmp_path, "config.toml", decide)

    said = tomllib.loads(file.read_text())
    assert asked == 2
    assert (said["model"], said["projects"]["/srv"]["trust_level"]) == ("o3", "trusted")


async def test_a_server_is_installed_as_codex_writes_it(tmp_path: Path) -> None:
    source = CodexSource(homes.codex(tmp_path))
    before = (tmp_path / "config.toml").read_text()

    async def install(**given: Any) -> CapabilityRecord:
        asked = CapabilityInstall(**{"kind": "connector", **given})
        return await source.write(CapabilityChange(action="install", by=OWNER, install=asked))

    made = await install(key="git", command="uvx", args=("mcp-server-git",), env={"A B": 'x"\n'})
    remote = await install(key="far", url="https://mcp.example.com/")
    said = tomllib.loads((tmp_path / "config.toml").read_text())["mcp_servers"]

    assert (made.status, remote.status) == ("ready", "ready")
    assert (tmp_path / "config.toml").read_text().startswith(before)
    assert said["git"] == {"command": "uvx", "args": ["mcp-server-git"], "env": {"A B": 'x"\n'}}
    assert said["far"] == {"url": "https://mcp.example.com/"}
    for wrong in (
        {"key": "git", "command": "uvx"},
        {"key": "new"},
        {"key": "new", "kind": "skill", "command": "uvx"},
        {"key": "new", "command": "uvx", "agent_id": "ada"},
    ):
        with pytest.raises(UnsupportedCapabilityWriteError):
            await install(**wrong)


async def test_a_switch_goes_through_the_gateway_into_the_file(tmp_path: Path) -> None:
    root = homes.codex(tmp_path / ".codex")
    settings = {"runtimes": ["codex"], "codex_home": str(root), "read_seconds": 10}
    async with running(home=tmp_path / "home", inventory=settings) as gate:
        record = next(
            one for one in (await gate.listed(runtime="codex")).records if one.name == "github"
        )
        await gate.ask("disable", id=record.id)
        off = (root / "config.toml").read_text()
        shown = await gate.ask("show", id=record.id)
        await gate.ask("enable", id=record.id)

    assert "enabled = false  # switched off by hookgate" in off
    assert shown.record.status == "disabled"
    assert (root / "config.toml").read_text() == homes.CODEX.replace("SKILLS", f"{root}/skills")


_SWITCH = """
import asyncio, sys
from pathlib import Path
from hookgate import CapabilityChange, Principal
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
source, key, times = CodexSource(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
record = next(one for one in source.read() if one.source_key == key)
async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(times):
        action = "enable" if number % 2 else "disable"
        change = CapabilityChange(action=action, by=Principal.owner(), record=record)
        await source.write(change)
asyncio.run(main())
"""


def switching(root: Path, key: str, times: int) -> subprocess.Popen[str]:
    done = subprocess.Popen(
        [sys.executable, "-c", _SWITCH, str(root), key, str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout is not None
    assert done.stdout.readline() == "ready\n"
    return done


def go(writers: Sequence[subprocess.Popen[str]]) -> None:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()


def ended(writer: subprocess.Popen[str]) -> int:
    code = writer.wait(timeout=50)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.close()
    writer.stdout.close()
    return code


@pytest.mark.slow
def test_two_writers_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    root = homes.codex(tmp_path)
    writers = [switching(root, "github", 41), switching(root, "docs:latest", 41)]

    go(writers)
    codes = [ended(writer) for writer in writers]

    text = (root / "config.toml").read_text()
    line = "enabled = false  # switched off by hookgate\n"
    assert codes == [0, 0]
    assert text.replace(line, "") == homes.CODEX.replace("SKILLS", str(root / "skills"))
    assert text.count(line) == 1


@pytest.mark.slow
@pytest.mark.parametrize("reads", [1, 40, 200])
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path, reads: int) -> None:
    root = homes.codex(tmp_path)
    before = (root / "config.toml").read_bytes()
    header = b"[mcp_servers.github]   # the company's\n"
    off = before.replace(header, header + b"enabled = false  # switched off by hookgate\n")
    writer = switching(root, "github", 100_000)

    go([writer])
    seen = [(root / "config.toml").read_bytes() for _ in range(reads * 20)]
    while not (root / f"config.toml{BACKUP}").exists():
        seen.append((root / "config.toml").read_bytes())
    os.kill(writer.pid, signal.SIGKILL)
    ended(writer)

    assert {*seen, (root / "config.toml").read_bytes()} <= {before, off}
    # What was left behind is in nobody's way.
    go([again := switching(root, "github", 1)])
    assert ended(again) == 0
    assert (root / "config.toml").read_bytes() == off

"""What lies in the homes of other runtimes: read within bounds, and told where it is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.inventory import homes
from tests.builtin_plugins.inventory.acme import running

from hookgate import CapabilityRecord, UnsupportedCapabilityWriteError
from hookgate.builtin_plugins.inventory.record import affordance, problem_of
from hookgate.builtin_plugins.inventory.sources import connector, files
from hookgate.builtin_plugins.inventory.sources.claude_code import ClaudeCodeSource
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
from hookgate.builtin_plugins.inventory.sources.hermes import HermesSource


def by_key(source: Any) -> dict[str, CapabilityRecord]:
    """Return what a source reads, each once and sound, by agent and key."""
    records: Sequence[CapabilityRecord] = source.read()
    assert [problem_of(one, source.id) for one in records] == [""] * len(records)
    assert len({one.id for one in records}) == len(records)
    return {
        one.source_key if one.agent_id is None else f"{one.agent_id}/{one.source_key}": one
        for one in records
    }


def test_hermes_has_nested_skills_and_the_servers_of_both_files(tmp_path: Path) -> None:
    found = by_key(HermesSource([homes.hermes(tmp_path / ".hermes")]))

    assert set(found) == {
        *("mlops/training/axolotl", "apple/apple-notes", "odd/broken", "odd/no-text"),
        *("time", "notion", "board", "coder/dev/tdd", "coder/time", "built-ins"),
        *("weather", "noisy", "memory/notes", f"{tmp_path}/team-skills:wiki"),
    }
    assert found["mlops/training/axolotl"].description == "Fine-tune models."
    assert {one.manageability for one in found.values()} == {"observe-only"}
    off = {key for key, one in found.items() if one.status == "disabled"}
    # A plugin that nobody has switched on is off, and the list of what is off counts most.
    assert off == {"apple/apple-notes", "notion", "noisy", "memory/notes"}
    assert f"{tmp_path}/gone: found no such folder" in found["built-ins"].diagnostics[0]
    assert found["coder/dev/tdd"].agent_id == "coder"
    assert found["time"].description == "an MCP server, started by uvx"
    # No part of an address but its host: the rest holds secrets.
    assert found["notion"].description == "an MCP server at mcp.notion.com"
    assert affordance(found["built-ins"]).note == "built-in, managed by hermes"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("env TOKEN=hush npx -y server", "env"),
        ("TOKEN=hush npx -y server --key hush", "npx"),
        ("/usr/bin/uvx --token hush", "uvx"),
        ("TOKEN=hush", "?"),
    ],
)
def test_of_a_command_the_program_alone_is_shown(command: str, shown: str) -> None:
    made = connector(
        "codex", "one", {"command": command}, manageability="observe-only", provenance="here"
    )
    assert made.description == f"an MCP server, started by {shown}"
    assert "hush" not in json.dumps(made.to_json())


def test_what_is_broken_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    root = homes.hermes(tmp_path / ".hermes")
    (root / "mcp.json").write_text('{"mcpServers": ')
    (root / "profiles/coder/config.yaml").write_text("mcp_servers: [1\n")

    found = by_key(HermesSource([root]))

    assert found["odd/broken"].available
    assert "frontmatter" not in found["odd/broken"].diagnostics[0]
    assert "SKILL.md:2" in found["odd/broken"].diagnostics[0]
    assert (found["odd/no-text"].available, found["odd/no-text"].status) == (False, "unavailable")
    told = " ".join(found["built-ins"].diagnostics)
    assert "mcp.json: found no JSON" in told
    assert "profiles/coder/config.yaml" in told
    assert {"time", "coder/dev/tdd"} <= set(found)


def test_a_home_of_an_identity_is_that_agents(tmp_path: Path) -> None:
    root = homes.hermes(tmp_path / "ada")

    found = by_key(HermesSource([root, tmp_path / "nobody"]))

    assert "ada/mlops/training/axolotl" in found
    assert {one.agent_id for one in found.values()} == {"ada", "coder", None}


def test_claude_code_has_servers_of_the_user_and_of_projects(tmp_path: Path) -> None:
    project = tmp_path / "code/shop"
    root = homes.claude_code(tmp_path / ".claude", project)

    found = by_key(ClaudeCodeSource(root))

    shared = f"{project}/.mcp.json"
    assert {key: one.status for key, one in found.items()} == {
        "sentry": "disabled",
        "files": "ready",
        "pdf": "ready",
        "diagram": "ready",
        "agents/reviewer": "ready",
        "commands/git/sync": "ready",
        f"{project}:agents/tester": "ready",
        **{
            f"{plugin}{key}": status
            for plugin, status in (("formatter@tools", "ready"), ("noisy@tools", "disabled"))
            for key in ("", ":layout", ":commands/tidy", ":agents/tidier")
        },
        "formatter@tools:fmt": "ready",
        "noisy@tools:drum": "disabled",
        f"{project}:db": "ready",
        f"{project}:release": "ready",
        f"{shared}:memory": "ready",
        f"{shared}:browser": "disabled",
        f"{shared}:waiting": "manageable-but-pending-auth",
        "built-ins": "ready",
    }
    assert found[f"{shared}:waiting"].name == "waiting"
    told = " ".join(found["built-ins"].diagnostics)
    assert "deny WebFetch" in told
    assert "the plugin gone@tools is installed, and its folder is not there" in told
    # Skills that runtimes share are links into the folder that they share.
    assert found["diagram"].description == "Draw diagrams."
    assert found["commands/git/sync"].description == "Sync with the remote"
    assert (found["agents/reviewer"].kind, found["agents/reviewer"].name) == ("tool", "reviewer")
    assert found["formatter@tools"].description == "Formats."
    assert found["noisy@tools:layout"].diagnostics == ("the plugin noisy@tools is switched off",)
    assert {one.manageability for one in found.values()} == {"observe-only"}
    assert "secret" not in json.dumps([one.to_json() for one in found.values()])
    assert "ada@" not in json.dumps([one.to_json() for one in found.values()])


def large_state(root: Path, project: Path, megabytes: int = 13) -> Path:
    """What Claude Code keeps of somebody who has worked with it for a year."""
    homes.claude_code(root, project)
    state = root.with_name(".claude.json")
    kept = json.loads(state.read_text())
    typed = {"display": "please mend the test " * 25, "pastedContents": {}}
    kept["projects"][str(project)]["history"] = [typed] * (megabytes * 1_000_000 // 560)
    state.write_text(json.dumps(kept))
    assert state.stat().st_size > megabytes * 900_000
    return state


def longest_hold(work: Callable[[], Any]) -> float:
    """Return the largest part of its work that a thread does without letting others run."""
    thread = threading.Thread(target=work)
    thread.start()
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    ticks = [0.0]
    while thread.is_alive():
        with suppress(OSError):
            ticks.append(time.clock_gettime(clock))
    return max(later - earlier for earlier, later in pairwise(ticks)) / ticks[-1]


@pytest.mark.slow
def test_a_large_state_holds_up_nobody_and_is_read_again_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, project = tmp_path / ".claude", tmp_path / "work"
    state = large_state(root, project)
    found: list[dict[str, CapabilityRecord]] = []

    def read() -> None:
        found.append(by_key(ClaudeCodeSource(root)))

    # Of several tries the best: on a busy machine it may be this thread that does not get on.
    assert min(longest_hold(read) for _ in range(3)) < 0.3

    source, reads = ClaudeCodeSource(root), []
    known = by_key(source)
    assert known == found[0]
    real = files.read_text
    monkeypatch.setattr(files, "read_text", lambda *a, **k: reads.append(a[0]) or real(*a, **k))
    assert by_key(source) == known
    assert state not in reads
    kept = json.loads(state.read_text())
    kept["mcpServers"]["fresh"] = {"command": "uvx"}
    state.write_text(json.dumps(kept))
    assert by_key(source).keys() - known.keys() == {"fresh"}
    assert reads.count(state) == 1


def test_codex_waits_for_its_login_and_says_how(tmp_path: Path) -> None:
    out = by_key(CodexSource(homes.codex(tmp_path / "out/.codex", logged_in=False)))
    ready = by_key(CodexSource(homes.codex_projects(homes.codex(tmp_path / "in/.codex"))))

    shop, odd = (f"{tmp_path}/in/work/{name}" for name in ("shop", "odd"))
    assert {key: one.status for key, one in ready.items()} == {
        "github": "ready",
        "docs:latest": "disabled",
        "broken": "unavailable",
        "review": "disabled",
        ".system/skill-creator": "ready",
        ".agents/diagram": "ready",
        f"{shop}:lint": "ready",
        f"{shop}/.codex/config.toml:shop-db": "ready",
        f"{odd}:lint": "ready",
        f"{odd}/.codex/config.toml:odd-db": "disabled",
        "built-ins": "ready",
    }
    assert ready["github"].manageability == "external-write"
    assert ready["review"].manageability == "observe-only"
    assert ready[f"{shop}/.codex/config.toml:shop-db"].manageability == "observe-only"
    assert "trust" in ready[f"{odd}/.codex/config.toml:odd-db"].diagnostics[0]
    assert out["github"].status == "manageable-but-pending-auth"
    assert "run `codex login`" in affordance(out["github"]).buttons[0].hint
    assert "run `codex login`" in out["built-ins"].diagnostics[-1]
    # What is switched off is so, whoever is logged in.
    assert out["docs:latest"].status == "disabled"
    assert "secret" not in json.dumps([one.to_json() for one in ready.values()])


@pytest.mark.parametrize(
    "said", ['cli_auth_credentials_store = "keyring"', 'model_provider = "ollama"']
)
def test_codex_waits_for_no_login_that_cannot_be_seen_or_is_not_needed(
    said: str, tmp_path: Path
) -> None:
    root = homes.codex(tmp_path, logged_in=False)
    homes.put(root / "config.toml", f"{said}\n{homes.CODEX}")

    found = by_key(CodexSource(root))["github"]
    assert (found.status, found.hint) == ("ready", "")


def test_a_runtime_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for source in (HermesSource([nowhere]), ClaudeCodeSource(nowhere), CodexSource(nowhere)):
        assert list(source.read()) == []


def test_links_out_of_the_home_are_not_followed(tmp_path: Path) -> None:
    outside = homes.skill(tmp_path / "elsewhere/spy", "spy", "Outside.").parent
    homes.put(tmp_path / "elsewhere/config.toml", "[mcp_servers.spy]\ncommand = 'spy'\n")
    root = homes.codex(tmp_path / ".codex")
    (root / "skills/spy").symlink_to(outside)
    (root / "skills/again").symlink_to(root / "skills")
    (root / "skills/circle").symlink_to(root / "skills/circle")
    (root / "config.toml").unlink()
    (root / "config.toml").symlink_to(tmp_path / "elsewhere/config.toml")

    found = by_key(CodexSource(root))

    assert set(found) == {"spy", "review", ".system/skill-creator", "built-ins"}
    assert found["spy"].description == ""
    assert "leads out of the home" in found["spy"].diagnostics[0]
    assert "config.toml" in found["built-ins"].diagnostics[0]


def test_reading_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SKILLS", 3)
    root = tmp_path / ".codex"
    for number in range(5):
        homes.skill(root / f"skills/s{number}", f"s{number}")
    homes.skill(root / "skills/1/2/3/4/5/6/7", "too-deep")
    homes.put(root / "config.toml", "#" * (files.CONFIG_BYTES + 1))

    found = by_key(CodexSource(root))

    assert set(found) == {"s0", "s1", "s2", "built-ins"}
    told = " ".join(found["built-ins"].diagnostics)
    assert "more than 3 skills" in told
    assert f"expected at most {files.CONFIG_BYTES}" in told


def test_a_skill_that_has_changed_is_read_again(tmp_path: Path) -> None:
    source = HermesSource([homes.hermes(tmp_path / ".hermes")])
    key = "mlops/training/axolotl"
    before = by_key(source)[key]
    homes.skill(tmp_path / ".hermes/skills" / key, "axolotl", "Something else by now.")

    assert before.description == "Fine-tune models."
    assert by_key(source)[key].description == "Something else by now."


_READ_AND_TELL = """
import json, os, sys
opened = []
def heard(event, args):
    if event == "open":
        path, mode, flags = args
        opened.append([str(path), flags])
    elif event.startswith(("os.", "shutil.")) and event not in ("os.listdir", "os.scandir"):
        opened.append([event, -1])
from pathlib import Path
from hookgate.builtin_plugins.inventory.sources.claude_code import ClaudeCodeSource
from hookgate.builtin_plugins.inventory.sources.hermes import HermesSource
from hookgate.builtin_plugins.inventory.sources import connector
from hookgate.builtin_plugins.inventory.sources.codex import CodexSource
root = Path(sys.argv[1])
sys.addaudithook(heard)
read = [HermesSource([root / ".hermes"]).read(), ClaudeCodeSource(root / ".claude").read(),
        CodexSource(root / ".codex").read()]
told = list(opened)
told = [one for one in told if sys.argv[1] in one[0] or one[1] < 0]
print(json.dumps([[len(one) for one in read], told]))
"""


def test_homes_are_never_opened_for_writing(tmp_path: Path) -> None:
    homes.hermes(tmp_path / ".hermes")
    homes.claude_code(tmp_path / ".claude", tmp_path / "code/shop")
    homes.codex_projects(homes.codex(tmp_path / ".codex", logged_in=False))
    everything = [tmp_path, *tmp_path.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in everything}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _READ_AND_TELL, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        )
    finally:
        for path in everything:
            path.chmod(0o755)
    counts, opened = json.loads(done.stdout)

    assert counts == [14, 23, 11]
    assert len(opened) >= 15
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    assert [path for path, flags in opened if flags < 0 or flags & writing] == []
    assert {path: path.stat().st_mtime_ns for path in everything} == before


async def test_what_is_only_looked_at_refuses_each_change(tmp_path: Path) -> None:
    change: Any = type("Change", (), {"action": "disable"})()
    for source in (HermesSource([tmp_path]), ClaudeCodeSource(tmp_path)):
        with pytest.raises(UnsupportedCapabilityWriteError, match="only looked at"):
            await source.write(change)


async def test_the_settings_say_which_runtimes_are_looked_at_and_where(tmp_path: Path) -> None:
    homes.hermes(tmp_path / ".hermes")
    homes.codex(tmp_path / ".codex")
    settings = {
        "runtimes": ["hermes", "codex"],
        "hermes_homes": [str(tmp_path / ".hermes")],
        "codex_home": str(tmp_path / ".codex"),
        "read_seconds": 10,
    }
    async with running(home=tmp_path / "home", inventory=settings) as gate:
        statuses = await gate.statuses()
        listed = (await gate.listed(runtime="codex", kind="connector")).records

    assert {name: one.ok for name, one in statuses.items()} == {
        "codex": True,
        "hermes": True,
        "native": True,
    }
    assert {one.source_key for one in listed} == {"github", "docs:latest", "broken"}

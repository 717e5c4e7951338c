"""What a cloned repository brings: nothing before it is accepted, and tainting behind that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.script import Allow, Script, Scripted, blocks, say, settings, settled, until

from hookgate.gateway import Gateway
from hookgate.kit.content.workspaces import Workspaces

MARK = "Feed it twice with rye, says the clone."
SKILL = f"---\nname: sourdough\ndescription: How to feed a sourdough starter.\n---\n{MARK}\n"
CARD = (
    "---\ncapability_id: bread\ntriggers:\n  keywords: [sourdough starter]\n"
    f"  confidence_threshold: 0.1\n---\n{MARK} {'Bread is baked of flour. ' * 10}\n"
)
QUESTION = "How do I feed a sourdough starter?"
BUILTIN = ("control", "storage", "sanitizer", "awareness", "discovery")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned repository in which the gateway is started."""
    folder = tmp_path / "clone"
    for name, text in {
        ".hookgate/capabilities/sourdough/SKILL.md": SKILL,
        ".hookgate/cards/bread.md": CARD,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


@asynccontextmanager
async def running(home: Path, *, watch: bool = False) -> AsyncIterator[tuple[Gateway, Script]]:
    script = Script(say("ok"))
    plugin = {
        "awareness": {"meaning": False, "allow_workspace_cards": True, "watch": watch},
        "discovery": {"watch": watch, "debounce_ms": 20},
    }
    gate = Gateway(
        settings(home, plugin=plugin), builtin=BUILTIN, plugins=[Scripted(script), Allow()]
    )
    async with gate:
        await settled(gate)
        yield gate, script


def accept(home: Path, clone: Path) -> None:
    known = Workspaces(home)
    known.accept(clone, known.standing(clone).digest, "2026-01-01T00:00:00+00:00")


async def test_nothing_of_a_clone_counts_before_somebody_has_accepted_it(
    tmp_path: Path, clone: Path
) -> None:
    async with running(tmp_path / "home") as (gate, script):
        turn = await gate.chat(QUESTION)
        notices = gate.host.status()["notices"]
    assert MARK not in repr(script.requests)
    assert "How to feed a sourdough" not in repr(script.requests)
    assert turn.taint == frozenset()
    command = f"`hookgate workspace accept {clone}`"
    assert command in notices["workspace capabilities"]
    assert command in notices["workspace cards"]


async def test_what_was_accepted_is_shown_and_taints(tmp_path: Path, clone: Path) -> None:
    home = tmp_path / "home"
    accept(home, clone)
    async with running(home) as (gate, script):
        turn = await gate.chat(QUESTION)
        notices = gate.host.status()["notices"]
    assert repr(script.requests).count(MARK) == 2
    assert turn.taint == {"skill:sourdough", "card:bread"}
    assert not {"workspace capabilities", "workspace cards"} & notices.keys()


async def test_text_that_changed_behind_the_acceptance_reaches_no_model(
    tmp_path: Path, clone: Path
) -> None:
    home = tmp_path / "home"
    accept(home, clone)
    async with running(home) as (gate, script):
        # Not watched, so that nobody has noticed when the turn is shown the skill.
        for name in ("capabilities/sourdough/SKILL.md", "cards/bread.md"):
            path = clone / ".hookgate" / name
            path.write_text(path.read_text().replace("rye", "poison"))
        await gate.chat(QUESTION)
        assert repr(script.requests).count(MARK) == 2
        await gate.reload()
        await gate.chat(QUESTION)
        assert MARK not in repr(blocks(script.requests[-1]))
        told = gate.host.status()["notices"]["workspace capabilities"]
    assert "changed since it was accepted" in told
    assert "poison" not in repr(script.requests)


async def test_a_gateway_that_runs_notices_that_it_was_accepted(
    tmp_path: Path, clone: Path
) -> None:
    home = tmp_path / "home"
    async with running(home, watch=True) as (gate, _):
        assert "skill:sourdough" not in gate.host.capabilities.view()
        accept(home, clone)
        await until(lambda: "skill:sourdough" in gate.host.capabilities.view())
        await until(lambda: "bread" in gate.host.cards.view())
        assert "workspace capabilities" not in gate.host.status()["notices"]

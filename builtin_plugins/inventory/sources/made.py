"""Records as the sources of other runtimes make them: skills, MCP servers and what is built in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status, Tier

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.sources.files import Home, Skill

BUILT_INS = "built-ins"
"""The key of the one record that stands for all that a runtime brings itself."""

_ODD = re.compile(r"[^\x21-\x7e\xa1-\uffff]")


def skill_record(
    source: str,
    skill: Skill,
    *,
    agent_id: str | None = None,
    key: str = "",
    status: Status = "ready",
) -> CapabilityRecord:
    """Return the record of a SKILL.md; nobody but its runtime may change one."""
    return CapabilityRecord.of(
        source,
        key or skill.key,
        kind="skill",
        source="filesystem-skill-md",
        manageability="observe-only",
        agent_id=agent_id,
        name=skill.name,
        description=skill.description,
        provenance=str(skill.path),
        available=skill.usable,
        status=status if skill.usable else "unavailable",
        diagnostics=(skill.problem,) if skill.problem else (),
    )


def connector(
    source: str,
    key: str,
    server: Any,
    *,
    manageability: Tier,
    provenance: str,
    **more: Any,
) -> CapabilityRecord:
    """Return the record of an MCP server as a runtime's settings have it.

    Arguments, the environment and all of an address but its host are left out: they hold secrets
    more often than not.
    """
    wrong = ""
    if not isinstance(server, dict):
        wrong = f"found a {type(server).__name__}, expected the settings of a server"
    elif not (_text(server, "url") or _text(server, "command")):
        wrong = "found neither a command nor a url"
    fields: dict[str, Any] = {"risk": "unknown", **more}
    if wrong:
        fields |= {
            "available": False,
            "status": "unavailable",
            "diagnostics": (*fields.get("diagnostics", ()), f"{provenance}: {key}: {wrong}"),
        }
    else:
        fields["description"] = _described(server)
    return CapabilityRecord.of(
        source,
        key,
        kind="connector",
        source="mcp-connector",
        manageability=manageability,
        provenance=provenance,
        **fields,
    )


def built_ins(source: str, runtime: str, names: Sequence[str], home: Home) -> CapabilityRecord:
    """Return the one record of what a runtime has built in, which tells of its files as well."""
    return CapabilityRecord.of(
        source,
        BUILT_INS,
        kind="tool",
        source="runtime-builtin",
        manageability="observe-only",
        name=f"{runtime}: built-in tools",
        description=", ".join(names),
        provenance=str(home.root),
        diagnostics=tuple(home.problems),
        risk="high",
    )


def _described(server: dict[str, Any]) -> str:
    if url := _text(server, "url"):
        try:
            host = urlsplit(url).hostname or "?"
        except ValueError:
            host = "?"
        return f"an MCP server at {_ODD.sub('?', host)[:100]}"
    return f"an MCP server, started by {_ODD.sub('?', _program(_text(server, 'command')))[:100]}"


def _program(command: str) -> str:
    """Return the name of the program alone: `env TOKEN=... npx` is `env`, `X=... npx` is `npx`.

    What stands behind it is left out as arguments are, also where the settings have them in one
    text. Of a path with a space in it the part before that is left.
    """
    words = (word for word in command.split() if "=" not in word)
    return PurePath(next(words, "?")).name


def _text(server: dict[str, Any], key: str) -> str:
    value = server.get(key)
    return value.strip() if isinstance(value, str) else ""

"""What a source of records is, what it is asked to change, and the records that they make."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from hookgate import Host, Principal, WireError
from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Kind, Status, Tier
from hookgate.hookspecs import hookspec

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.sources.files import Home, SkillFile

# A specification of a hook has no body: the implementations are the plugins'.
# mypy: disable-error-code="empty-body"


Action: TypeAlias = Literal["install", "enable", "disable", "approve"]

UNSUPPORTED = "unsupported_capability_write"
"""The code of `UnsupportedCapabilityWriteError`: HTTP 422."""

DISCONNECTED = "runtime_disconnected"
"""The code of `RuntimeDisconnectedError`: HTTP 503."""


class UnknownCapabilityError(WireError):
    """There is no such capability, agent or source: 404."""

    def __init__(self, message: str, *, action: str = "") -> None:
        super().__init__(-32006, message, data={"code": "not_found", "action": action})


class UnsupportedCapabilityWriteError(WireError):
    """This cannot be done to this capability, whoever asks: 422."""

    def __init__(self, message: str, *, action: str = "") -> None:
        super().__init__(-32000, message, data={"code": UNSUPPORTED, "action": action})


class RuntimeDisconnectedError(WireError):
    """The runtime that has the capability cannot be reached now: 503. Nothing was changed."""

    def __init__(self, message: str, *, action: str = "try again once it runs") -> None:
        super().__init__(-32000, message, data={"code": DISCONNECTED, "action": action})


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityInstall:
    """What is to be installed. It has passed the scan when a source gets it.

    Attributes:
        key: What it will be called: 1 to 64 characters.
        kind: skill, tool or connector.
        agent_id: For which agent; None for everybody.
        runtime: The runtime of that agent, which the gateway has found out.
        description: What it does.
        content: The text of a skill.
        command: The command that starts a connector.
        args: Its arguments.
        env: Its environment.
        url: The address of a connector.
    """

    key: str
    kind: Kind
    agent_id: str | None = None
    runtime: str = "native"
    description: str = ""
    content: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityChange:
    """What a source is asked to do.

    Attributes:
        action: install, enable, disable or approve.
        by: Who asks; that it may is settled.
        record: What is to be changed, as the source has just read it; None for an install.
        agent_id: The agent for which something of everybody's is switched; None for all.
        install: What is to be installed; None for the rest.
        digest: The digest that is approved; "" for the rest.
    """

    action: Action
    by: Principal
    record: CapabilityRecord | None = None
    agent_id: str | None = None
    install: CapabilityInstall | None = None
    digest: str = ""


class RuntimeSource(Protocol):
    """Reads what a runtime has, and changes what that runtime cedes."""

    @property
    def id(self) -> str:
        """The word that its records' ids begin with: ``native``, ``hermes``, ``acme``."""

    def read(self) -> Awaitable[Sequence[CapabilityRecord]] | Sequence[CapabilityRecord]:
        """Return all that the runtime has now; nothing where the runtime is not there at all.

        It may be ``async``; a plain function runs on a thread of its own, so it may block. It
        has a limit of its own (``read_seconds``). Whatever it raises makes the source degraded,
        and its last good records are served.
        """

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Make a change, and return the record as it is then.

        The change was found allowed by the record; look again before writing, by what is there
        then. Disabling takes nothing away that enabling would have to bring back. Changes of one
        source come one after the other.

        Raises:
            UnknownCapabilityError: What it names is not there any more.
            UnsupportedCapabilityWriteError: It cannot be done to this.
            RuntimeDisconnectedError: The runtime cannot be reached.
        """


@hookspec("each", limit=10.0)
def inventory_sources(host: Host) -> Sequence[RuntimeSource]:
    """Bring sources of the inventory: other runtimes of the machine, and what they have.

    Called once at start, when the plugin `inventory` opens. A source whose id is taken is left
    out, and ``status`` says so. One that fails costs its own sources alone.

    Args:
        host: The gateway.

    Returns:
        The sources.

    Example:
        ::

            @hookimpl(of="inventory")
            def inventory_sources(self, host):
                return [AcmeSource(self.settings.folder)]
    """


# -- made ------------------------------------------------------------------------

# Records as the sources of other runtimes make them: skills, MCP servers and what is built in.

DESCRIPTION_CHARS = 1024

BUILT_INS = "built-ins"
"""The key of the one record that stands for all that a runtime brings itself."""

_ODD = re.compile("[\x00-\x20\x7f-\xa0\U00010000-\U0010ffff]")


def skill_record(
    source: str,
    skill: SkillFile,
    *,
    agent_id: str | None = None,
    key: str = "",
    status: Status = "ready",
    kind: Kind = "skill",
    why: str = "",
) -> CapabilityRecord:
    """Return the record of a SKILL.md; nobody but its runtime may change one.

    Args:
        source: The source that reads it.
        skill: The file.
        agent_id: The agent whose it is; None for everybody.
        key: What it is called where it is kept; the file's own key where this is left out.
        status: Whether its runtime has it switched on.
        kind: What it is: a subagent is a tool of its runtime.
        why: Why it cannot be used; "" where it can.
    """
    return CapabilityRecord.of(
        source,
        key or skill.key,
        kind=kind,
        source="filesystem-skill-md",
        manageability="observe-only",
        agent_id=agent_id,
        name=skill.name,
        description=skill.description,
        provenance=str(skill.path),
        available=skill.usable,
        status=status if skill.usable else "unavailable",
        diagnostics=tuple(one for one in (skill.problem, why) if one),
    )


def extension(
    source: str,
    key: str,
    *,
    description: Any,
    provenance: Path,
    on: bool,
    agent_id: str | None = None,
) -> CapabilityRecord:
    """Return the record of a plugin that a runtime has installed and manages by itself.

    Args:
        source: The source that reads it.
        key: What the runtime calls it.
        description: What its manifest says of it; passed over where that is no text.
        provenance: Its folder.
        on: Whether it is switched on.
        agent_id: The agent whose it is; None for everybody.
    """
    return CapabilityRecord.of(
        source,
        key,
        kind="connector",
        source="external-vendor-cli",
        manageability="observe-only",
        description=(
            " ".join(description.split())[:DESCRIPTION_CHARS]
            if isinstance(description, str)
            else ""
        ),
        provenance=str(provenance),
        agent_id=agent_id,
        status="ready" if on else "disabled",
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

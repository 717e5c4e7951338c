"""What a source of records is, what it is asked to change, and how it refuses."""

# A specification of a hook has no body: the implementations are the plugins'.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from hookgate import Host, Principal, WireError
from hookgate.hookspecs import hookspec

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Kind

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

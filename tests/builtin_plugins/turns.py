"""What the tests of the plugins are made with: turns, calls, a host, a clock to be turned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Message, Provenance
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.parts import Text
from hookgate.core.domain.ports import CLOCK
from hookgate.core.domain.tools import Tool, ToolCall
from hookgate.core.domain.turn import Address, Agent, Origin, Principal, SessionKey, Turn, TurnPlan
from hookgate.core.host import Host, PluginInfo
from hookgate.core.registry.snapshots import CapabilityIndex, Snapshot
from hookgate.core.settings.key_file import read_key_file
from hookgate.core.settings.schema import Settings
from hookgate.sessions import offer_in_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hookgate.core.domain.descriptors import Capability
    from hookgate.core.domain.events import Event

MODEL = ModelRef("demo", "demo")


class KnownSecrets:
    """`Secrets` that masks what it was told."""

    def __init__(self, *known: str) -> None:
        self.known = list(known)

    def get(self, name: str) -> str | None:
        return None

    def read(self, path: Path) -> str | None:
        return read_key_file(path)

    def watch(self, told: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    def add_source(self, place: str, find: Callable[[str], str | None]) -> Callable[[], None]:
        return lambda: None

    def how_to_set(self, name: str) -> Sequence[str]:
        return (f"set {name}",)

    def register(self, value: str) -> None:
        self.known.append(value)

    def redact(self, text: str) -> str:
        for value in self.known:
            text = text.replace(value, "***")
        return text

    def settle(self, text: str) -> tuple[str, str]:
        return self.redact(text), ""


class TurnedClock:
    """A `Clock` that moves when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
        self.seconds = 1000.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.seconds += seconds


def make_host(home: Path = Path("unused"), *, secrets: Iterable[str] = ()) -> Host:
    host = Host(Settings(home=home), KnownSecrets(*secrets))
    host.provide(CLOCK, TurnedClock())
    offer_in_process(host)
    return host


class Attached:
    """What a gateway attaches to a host, as far as a test needs it."""

    def __init__(self, *infos: PluginInfo, sanitize: Any = None) -> None:
        self._infos = infos
        self.sanitize = sanitize
        self.version = 0

    def infos(self) -> Sequence[PluginInfo]:
        return self._infos


def attach(host: Host, *infos: PluginInfo, sanitize: Any = None) -> None:
    """Give `host` these plugins and this sanitizer; it has no turns."""
    attached: Any = Attached(*infos, sanitize=sanitize)
    host.attach(plugins=attached, sanitizer=attached if sanitize else None)


def make_turn(
    text: str = "hello",
    *,
    agent: str = "demo",
    address: Address | None = None,
    provenance: Provenance = Provenance.EXTERNAL_USER,
    principal: Principal | None = None,
    taint: Iterable[str] = (),
    tools: Iterable[Tool] = (),
    capabilities: Iterable[Capability] = (),
    allowed: tuple[str, ...] | None = None,
    sink: Callable[[Event], None] = lambda _: None,
    **more: Any,
) -> Turn:
    address = address or Address()
    message = Message(role="user", parts=(Text(text),), provenance=provenance)
    return Turn(
        session=SessionKey(agent, address.channel, address.account, address.peer),
        agent=Agent(name=agent, models=(MODEL,), tools=allowed),
        address=address,
        principal=principal or Principal.owner(),
        origin=Origin(provenance=provenance, path="ws"),
        message=message,
        messages=[message],
        snapshot=Snapshot(
            tools={tool.name: tool for tool in tools},
            capabilities=CapabilityIndex({row.id: row for row in capabilities}, 1),
        ),
        plan=TurnPlan(models=(MODEL,)),
        extra_taint=frozenset(taint),
        sink=sink,
        **more,
    )


def make_call(
    name: str = "act",
    flags: Flags | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    description: str = "Act.",
    call_id: str = "call-1",
) -> ToolCall:
    tool = Tool(
        name=name, description=description, schema={"type": "object"}, flags=flags or Flags()
    )
    return ToolCall(id=call_id, tool=tool, arguments=arguments or {})

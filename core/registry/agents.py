"""The agents: made of the settings, with their souls, and chosen by who writes from where."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate.core.domain.errors import ConfigError, NoAgentError, NotAllowedError, Problem
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.turn import Address, Agent, Principal, is_guest_channel

if TYPE_CHECKING:
    from hookgate.core.settings.schema import AgentSettings, BindingSettings, Settings

Tier: TypeAlias = Literal["request", "peer", "guild", "team", "account", "channel", "default"]
_FIELDS: tuple[Tier, ...] = ("peer", "guild", "team", "account", "channel")
_TIERS: tuple[Tier, ...] = (*_FIELDS, "default")

DEMO_AGENT = Agent(name="demo", models=(ModelRef("demo", "demo"),))
"""The agent of a gateway without any configured one."""

MAX_SOUL_BYTES = 65_536


async def load_agents(settings: Settings) -> dict[str, Agent]:
    """Return the configured agents by name, or the demo agent where there are none.

    Raises:
        ConfigError: Every soul's file that cannot be read, is not UTF-8 or is too long.
    """
    if not settings.agents:
        return {DEMO_AGENT.name: DEMO_AGENT}
    return await asyncio.to_thread(_agents, settings.agents)


def _agents(sections: Mapping[str, AgentSettings]) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    problems: list[Problem] = []
    for name, section in sections.items():
        try:
            agents[name] = _agent(name, section)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return agents


def _agent(name: str, section: AgentSettings) -> Agent:
    return Agent(
        name=name,
        models=section.models,
        soul=_soul(name, section),
        tools=section.tools,
        max_output_tokens=section.max_output_tokens,
        temperature=section.temperature,
        settings=section.options,
    )


def _soul(name: str, section: AgentSettings) -> str:
    if section.soul_file is None:
        return section.soul
    key, path = f"agents.{name}.soul_file", section.soul_file.expanduser()
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_SOUL_BYTES:
            raise ValueError(f"it has {len(raw)} bytes, and {MAX_SOUL_BYTES} are the most")
        return raw.decode("utf-8")
    except (OSError, ValueError) as error:
        problem = Problem(
            key=key,
            found=f"{path} ({error})",
            expected="a readable UTF-8 file",
        )
        raise ConfigError([problem]) from error


def souls_there(settings: Settings) -> tuple[tuple[str, int, int], ...]:
    """Return the files that hold souls, with what changes when somebody writes to one."""
    found = []
    for section in settings.agents.values():
        if section.soul_file is not None:
            path = section.soul_file.expanduser()
            with suppress(OSError):
                status = path.stat()
                found.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(found)


# -- which one answers ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRoute:
    """Which agent answers, and why.

    Attributes:
        agent: The agent.
        tier: The tier that decided.
        binding: The place of the binding in the settings, from 0; None where none matched.
        reason: The same in words.
    """

    agent: Agent
    tier: Tier
    binding: int | None = None
    reason: str = ""


class Router:
    """Resolves the agent of a message: peer > guild > team > account > channel > default.

    A binding belongs to the tier of the most specific field that it sets, and matches
    when all the fields that it sets do. Within a tier the first one in the settings wins.
    Accounts, peers, guilds and teams of a channel of the sandbox are a stranger's words: they
    match where the binding names that channel, too.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent],
        bindings: Sequence[BindingSettings] = (),
        default: str | None = None,
    ) -> None:
        self._agents = dict(agents)
        self._default = default
        numbered = [(_tier_of(one), number, one) for number, one in enumerate(bindings)]
        self._bindings = sorted(numbered, key=lambda one: _TIERS.index(one[0]))
        if default is None and not bindings and len(agents) == 1:
            self._default = next(iter(agents))

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by name."""
        return self._agents

    def resolve(self, address: Address, agent: str | None = None) -> AgentRoute:
        """Return who answers a message from `address`.

        Args:
            address: Where the message comes from.
            agent: An agent that was asked for by name; comes before all bindings.

        Raises:
            NoAgentError: Nothing matches, or the agent that was asked for is not there.
        """
        if agent is not None:
            if agent not in self._agents:
                raise NoAgentError(
                    f"found no agent called {agent!r}; configured are {self._names()}",
                    action=f"add a section [agents.{agent}] to the settings",
                )
            return AgentRoute(agent=self._agents[agent], tier="request", reason="asked for by name")
        for tier, number, binding in self._bindings:
            if _matches(binding, address):
                return AgentRoute(
                    agent=self._agents[binding.agent],
                    tier=tier,
                    binding=number,
                    reason=f"bindings[{number}] matches by {_describe(binding)}",
                )
        if self._default is not None:
            return AgentRoute(
                agent=self._agents[self._default], tier="default", reason="the default"
            )
        raise NoAgentError(
            f"no binding matches channel {address.channel!r}, account {address.account!r}, "
            f"peer {address.peer!r}, and there is no default; configured are {self._names()}",
            action="add a [[bindings]] entry for it, or set `default_agent`",
        )

    def _names(self) -> str:
        return ", ".join(sorted(self._agents)) or "none"


def check_agent(principal: Principal, agent: Agent) -> None:
    """Refuse a principal whose key does not allow the agent that would answer.

    Raises:
        NotAllowedError: It does not.
    """
    if not principal.may_use_agent(agent.name):
        raise NotAllowedError(
            f"{principal.id} may not speak to agent {agent.name!r}",
            action="use a token whose `agents` allow it",
        )


def _tier_of(binding: BindingSettings) -> Tier:
    return next((tier for tier in _FIELDS if getattr(binding, tier) is not None), "default")


def _matches(binding: BindingSettings, address: Address) -> bool:
    wanted = [(getattr(binding, name), getattr(address, name)) for name in _FIELDS]
    if binding.channel is None and is_guest_channel(address.channel):
        return all(want is None for want, _ in wanted)
    return all(want is None or want == have for want, have in wanted)


def _describe(binding: BindingSettings) -> str:
    given = [f"{name} {value!r}" for name in _FIELDS if (value := getattr(binding, name))]
    return " and ".join(given) or "setting no field"

"""Which agent answers a message, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate.core.domain.errors import NoAgentError, NotAllowedError
from hookgate.core.domain.turn import Address, Agent, Principal, is_guest_channel

if TYPE_CHECKING:
    from hookgate.core.settings.schema import BindingSettings

Tier: TypeAlias = Literal["request", "peer", "guild", "team", "account", "channel", "default"]
_TIERS: tuple[Tier, ...] = ("peer", "guild", "team", "account", "channel", "default")
_FIELDS = ("peer", "guild", "team", "account", "channel")


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
        self._tiers: dict[Tier, list[tuple[int, BindingSettings]]] = {tier: [] for tier in _TIERS}
        for number, binding in enumerate(bindings):
            self._tiers[_tier_of(binding)].append((number, binding))
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
        for tier in _TIERS:
            for number, binding in self._tiers[tier]:
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
    for tier in _TIERS[:-1]:
        if getattr(binding, tier) is not None:
            return tier
    return "default"


def _matches(binding: BindingSettings, address: Address) -> bool:
    wanted = [(getattr(binding, name), getattr(address, name)) for name in _FIELDS]
    if binding.channel is None and is_guest_channel(address.channel):
        return all(want is None for want, _ in wanted)
    return all(want is None or want == have for want, have in wanted)


def _describe(binding: BindingSettings) -> str:
    given = [f"{name} {value!r}" for name in _FIELDS if (value := getattr(binding, name))]
    return " and ".join(given) or "setting no field"

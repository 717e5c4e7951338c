"""The models that a client may name, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from hookgate import Address, Host, ModelInfo, ModelRef, Principal, TurnError, WireError
from hookgate.builtin_plugins.compat.settings import Alias, CompatSettings

AGENT = "agent/"
"""What the name of an agent begins with, where a model's is expected."""

EPOCH = "1970-01-01T00:00:00Z"
"""When a model was made of which nobody says it."""


class Models:
    """The models of a gateway, as clients of the vendors' wires know them.

    Args:
        host: The host.
        settings: The plugin's settings.
    """

    def __init__(self, host: Host, settings: CompatSettings) -> None:
        self._host = host
        self._settings = settings

    def refs(
        self, name: str, provider: str, principal: Principal, session: str = ""
    ) -> tuple[ModelRef, ...]:
        """Return the models that a client means, in the order in which they are asked.

        Args:
            name: The name that it has sent.
            provider: The provider of names without one.
            principal: Who asks; models that it may not use are left out.
            session: The client's session; see `Alias.models`.

        Raises:
            WireError: There is no such provider, or the principal may use none of the models.
        """
        alias = self._settings.aliases.get(name)
        meant = (self._ref(name, provider),) if alias is None else alias.models(session)
        known = [ref for ref in meant if ref is not None and ref.provider in self._host.providers]
        if not known:
            near = self._near(name, principal)
            raise WireError.named(
                "unknown_model",
                f"no provider here has the model {name[:200]!r}{near}",
                action="name it as `provider/model`, or give it a name in [plugin.compat.aliases]",
                param="model",
            )
        allowed = tuple(ref for ref in known if principal.may_use_model(ref))
        if not allowed:
            raise WireError.named(
                "forbidden",
                f"{principal.id} may not use {name[:200]!r}",
                action="name a model that GET /v1/models lists",
                param="model",
            )
        return allowed

    def _ref(self, name: str, provider: str) -> ModelRef | None:
        """Return the model of a name that is no alias; None where nobody has it."""
        first, slash, rest = name.partition("/")
        known = self._host.providers
        if slash and first and rest and first in known:
            return ModelRef(first, rest)
        if provider in known and not (slash and first in self._host.described):
            return ModelRef(provider, name)
        return None

    def alias(self, name: str) -> Alias | None:
        """Return what a name stands for in the settings; None where it is none of theirs."""
        return self._settings.aliases.get(name)

    def agent(self, name: str, principal: Principal) -> str:
        """Return the agent that a client means by a model's name; "" where it means none.

        Raises:
            WireError: There is none of that name that the principal may ask.
        """
        alias = self.alias(name)
        if alias is not None and alias.agent in ("", *self._host.agents()):
            return alias.agent
        agent = name.removeprefix(AGENT)
        known = self.agents(principal)
        if alias is None and (agent == name or agent in known):
            return "" if agent == name else agent
        raise WireError.named(
            "unknown_model",
            f"{principal.id} finds no agent {name[:200]!r}, expected one of "
            f"{', '.join(f'{AGENT}{one}' for one in known) or 'none'}",
            action="name a model that GET /v1/models lists, or have its key name the agent",
            param="model",
        )

    def agents(self, principal: Principal) -> list[str]:
        """Return the agents that a principal may ask by their names.

        One that no agents are named for gets the one that is meant for where it speaks.
        """
        names = list(self._host.agents())
        if principal.agents is None and "operate" not in principal.scopes:
            with suppress(TurnError):
                names = [self._host.route(address_of(principal, "new")).agent.name]
        return [name for name in names if self._may_ask(principal, name)]

    def _may_ask(self, principal: Principal, agent: str) -> bool:
        section = self._host.settings.agents.get(agent)
        models = section.models if section is not None else ()
        answered = not models or any(map(principal.may_use_model, models))
        return answered and principal.may_use_agent(agent)

    def wire(self, ref: ModelRef) -> str:
        """Return the wire that a model's provider speaks; "" where it does not say."""
        return getattr(self._host.providers.get(ref.provider), "wire", "")

    def named(self, principal: Principal) -> dict[str, ModelInfo]:
        """Return the models that a principal may use, by the names that it can send."""
        every = {str(ref): ModelInfo(name=ref.model) for ref in self._asked(principal)}
        every |= dict(self._all())
        meant = {name: ModelRef.parse(name) for name in every}
        found = {name: every[name] for name, ref in meant.items() if principal.may_use_model(ref)}
        for name, alias in self._settings.aliases.items():
            refs = [ref for ref in map(ModelRef.parse, alias.to) if principal.may_use_model(ref)]
            if not self._allowed(principal, alias):
                continue
            if refs:
                found[name] = every.get(str(refs[0])) or ModelInfo(name=refs[0].model)
            elif alias.agent:
                found[name] = ModelInfo(name=alias.agent)
        if may_ask(principal, "agent"):
            found |= {f"{AGENT}{one}": ModelInfo(name=one) for one in self.agents(principal)}
        return dict(sorted(found.items()))

    def _allowed(self, principal: Principal, alias: Alias) -> bool:
        agent = alias.agent
        known = not agent or (agent in self._host.agents() and self._may_ask(principal, agent))
        return known and may_ask(principal, alias.mode)

    def _asked(self, principal: Principal) -> Iterator[ModelRef]:
        """Yield the models that agents ask and that a key names one by one."""
        named = [name for name in principal.models or () if not set(name) & set("*?[")]
        for agent in self._host.settings.agents.values():
            named += map(str, agent.models)
        for name in named:
            # Many servers say nothing of their models, and are asked all the same.
            if (ref := self._ref(name, "")) is not None:
                yield ref

    def _all(self) -> Iterator[tuple[str, ModelInfo]]:
        for name, provider in self._host.providers.items():
            for info in provider.models():
                if info.name != "*":
                    yield f"{name}/{info.name}", info

    def _near(self, name: str, principal: Principal) -> str:
        """Name the nearest model: of those that the key may use, since others are no news to it."""
        near = get_close_matches(name, self.named(principal), n=1)
        return f", did you mean {near[0]!r}?" if near else ""


def address_of(principal: Principal, session: str) -> Address:
    """Return where a client speaks: within what its key is bound to, in a session of its own."""
    own = Address("compat", principal.key or principal.id, session)
    if principal.may_claim(own) or not principal.bindings:
        return own
    claim = principal.bindings[0]
    return Address(
        own.channel if claim.channel == "*" else claim.channel,
        own.account if claim.account == "*" else claim.account,
        own.peer if claim.peer == "*" else claim.peer,
    )


def may_ask(principal: Principal, mode: str) -> bool:
    """Whether a principal may ask in a mode: all may, but for keys that name others."""
    modes = principal.claims.get("modes")
    return modes is None or mode in modes


def openai_model(name: str, info: ModelInfo) -> dict[str, Any]:
    """Return a model as OpenAI's list has it."""
    del info
    return {"id": name, "object": "model", "created": 0, "owned_by": name.partition("/")[0]}


def anthropic_model(name: str, info: ModelInfo) -> dict[str, Any]:
    """Return a model as Anthropic's list has it, with its limits where they are known."""
    limits = {"max_input_tokens": info.context_tokens, "max_tokens": info.max_output_tokens}
    known = {key: value for key, value in limits.items() if value is not None}
    return {"type": "model", "id": name, "display_name": name, "created_at": EPOCH, **known}


def openai_models(found: Mapping[str, ModelInfo]) -> dict[str, Any]:
    """Return a list as OpenAI's SDK reads it."""
    return {"object": "list", "data": [openai_model(*item) for item in found.items()]}


def anthropic_models(found: Mapping[str, ModelInfo]) -> dict[str, Any]:
    """Return a list as Anthropic's SDK reads it; all of it is one page."""
    data = [anthropic_model(*item) for item in found.items()]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
    return {"data": data, "has_more": False, "first_id": None, "last_id": None, **ends}

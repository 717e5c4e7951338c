"""The agents' models, held against what the providers say of themselves.

Nothing is opened for it and nobody is asked over a network: `hookgate config check` and the
start of a gateway find the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hookgate import hookspecs
from hookgate.core.domain.errors import Problem
from hookgate.core.domain.models import ModelRef, ProviderInfo
from hookgate.core.registry.agents import DEMO_AGENT
from hookgate.core.settings.toml_lines import KeyPath
from hookgate.core.settings.words import dotted

if TYPE_CHECKING:
    from hookgate.core.hooks.caller import Hooks
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import Settings

__all__ = [
    "DescribedProviders",
    "ModelFault",
    "agents_by_model",
    "check_models",
    "describe",
    "tell_models",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedProviders:
    """What is known of the providers.

    Attributes:
        providers: The providers by name.
        silent: Plugins that bring providers and do not describe them, or failed to.
    """

    providers: Mapping[str, ProviderInfo] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFault:
    """Something about one model of an agent.

    Attributes:
        agent: The agent.
        problem: What is wrong, as a problem of the settings; file and line are not known.
        lacking: The provider, where that lacks something.
        certain: Whether it is wrong. Otherwise it is worth a look, and may be right.
    """

    agent: str
    problem: Problem
    lacking: str = ""
    certain: bool = True


@dataclass(frozen=True, slots=True)
class _Used:
    """A model that an agent may use, and the keys that name it."""

    agent: str
    ref: ModelRef
    provider_key: KeyPath
    model_key: KeyPath

    def nearest(self, provider: str, model: str) -> str:
        """Return what to write instead at the key."""
        whole = self.provider_key == self.model_key
        if whole:
            return f"{provider}/{model}"
        return provider if model == self.ref.model else model


async def describe(host: Host, hooks: Hooks) -> DescribedProviders:
    """Ask the plugins which providers they bring; nothing needs to be open for that."""
    answers = await hooks.each_by_plugin(hookspecs.describe_providers, host)
    told = {answer.plugin for answer in answers if answer.failure is None}
    bringing = {one.plugin for one in hooks.implementations(hookspecs.list_providers)}
    return DescribedProviders(
        providers={info.name: info for answer in answers for info in answer.value or ()},
        silent=tuple(sorted(bringing - told)),
    )


def check_models(settings: Settings, described: DescribedProviders) -> Iterator[ModelFault]:
    """Yield what is wrong with the models of the agents, fallbacks included."""
    for used in _models(settings):
        info = described.providers.get(used.ref.provider)
        if info is None:
            yield _unknown_provider(used, described)
        elif info.missing:
            problem = _problem(
                used.provider_key,
                f"{used.ref}, and there is {info.missing}",
                f"a provider that can be asked: {info.action}",
            )
            yield ModelFault(agent=used.agent, problem=problem, lacking=info.name)
        elif (fault := _unknown_model(used, info)) is not None:
            yield fault


def tell_models(host: Host, settings: Settings) -> None:
    """Say in ``status`` which agents cannot answer with their models; take back what is mended.

    The gateway runs all the same: other agents, and other models of these, may do.
    """
    known = dict(host.described)
    for name, provider in host.providers.items():
        known.setdefault(name, ProviderInfo(name=name, models=tuple(provider.models())))
    faults: dict[str, list[str]] = {}
    lacking = {name for name in host.providers if known[name].missing}
    for fault in check_models(settings, DescribedProviders(providers=known)):
        if fault.lacking:
            lacking.add(fault.lacking)
        elif fault.certain:
            faults.setdefault(f"agent {fault.agent}", []).append(str(fault.problem))
    told = {part: "; ".join(texts) for part, texts in faults.items()}
    told |= {f"provider {one}": f"{known[one].missing}: {known[one].action}" for one in lacking}
    agents = {f"agent {name}" for name in (*settings.agents, DEMO_AGENT.name)}
    host.standing.turned(agents, dict(sorted(told.items())))


def agents_by_model(settings: Settings) -> dict[ModelRef, list[str]]:
    """Return the models of the settings, and which agents ask each, fallbacks included."""
    found: dict[ModelRef, list[str]] = {}
    for name, agent in sorted(settings.agents.items()):
        for model in agent.models:
            found.setdefault(model, []).append(name)
    return found


def _models(settings: Settings) -> Iterator[_Used]:
    if not settings.agents:
        yield _Used(DEMO_AGENT.name, DEMO_AGENT.models[0], ("agents",), ("agents",))
    for name, section in settings.agents.items():
        here = ("agents", name)
        first, *others = section.models
        named_by = (*here, "provider" if section.provider else "model")
        yield _Used(name, first, named_by, (*here, "model"))
        for number, ref in enumerate(others):
            key = (*here, "fallback", number)
            yield _Used(name, ref, key, key)


def _unknown_provider(used: _Used, described: DescribedProviders) -> ModelFault:
    ref, known = used.ref, sorted(described.providers)
    near = get_close_matches(ref.provider, known, n=1)
    problem = _problem(
        used.provider_key,
        f"{ref}, and no provider is called {ref.provider!r}",
        f"one of {', '.join(known)}" if known else "a plugin that brings providers",
        used.nearest(near[0], ref.model) if near else None,
    )
    # A plugin that does not describe its providers may bring it.
    return ModelFault(agent=used.agent, problem=problem, certain=not described.silent)


def _unknown_model(used: _Used, info: ProviderInfo) -> ModelFault | None:
    names = [model.name for model in info.models]
    listed = [name for name in names if name != "*"]
    if used.ref.model in listed or not listed:
        return None
    near = get_close_matches(used.ref.model, listed, n=1)
    problem = _problem(
        used.model_key,
        f"{used.ref}, which {info.name} does not list",
        f"one of its models: {', '.join(listed)}",
        used.nearest(info.name, near[0]) if near else None,
    )
    return ModelFault(agent=used.agent, problem=problem, certain="*" not in names)


def _problem(key: KeyPath, found: str, expected: str, nearest: str | None = None) -> Problem:
    return Problem(key=dotted(key), found=found, expected=expected, nearest=nearest)

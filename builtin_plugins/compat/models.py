"""The models that a client may name, and what they are called here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from hookgate import Host, ModelInfo, ModelRef, Principal, WireError
from hookgate.builtin_plugins.compat.settings import CompatSettings

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

    def ref(self, name: str, provider: str) -> ModelRef:
        """Return the model that a client means.

        Args:
            name: The name that it has sent.
            provider: The provider of names without one.

        Raises:
            WireError: There is no such provider.
        """
        meant = self._settings.aliases.get(name, name)
        first, slash, rest = meant.partition("/")
        known = self._host.providers
        if slash and first and rest and first in known:
            return ModelRef(first, rest)
        if provider in known and not (slash and first in self._host.described):
            return ModelRef(provider, meant)
        raise WireError.named(
            "unknown_model",
            f"no provider here has the model {name[:200]!r}{self._near(name)}",
            action="name it as `provider/model`, or give it a name in [plugin.compat.aliases]",
            param="model",
        )

    def wire(self, ref: ModelRef) -> str:
        """Return the wire that a model's provider speaks; "" where it does not say."""
        return getattr(self._host.providers.get(ref.provider), "wire", "")

    def named(self, principal: Principal) -> dict[str, ModelInfo]:
        """Return the models that a principal may use, by the names that it can send."""
        found = dict(self._all())
        for alias, meant in self._settings.aliases.items():
            ref = ModelRef.parse(meant)
            found[alias] = found.get(meant) or ModelInfo(name=ref.model)
        return {
            name: info
            for name, info in sorted(found.items())
            if principal.may_use_model(ModelRef.parse(self._settings.aliases.get(name, name)))
        }

    def _all(self) -> Iterator[tuple[str, ModelInfo]]:
        for name, provider in self._host.providers.items():
            for info in provider.models():
                if info.name != "*":
                    yield f"{name}/{info.name}", info

    def _near(self, name: str) -> str:
        names = [*self._settings.aliases, *(one for one, _ in self._all())]
        near = get_close_matches(name, names, n=1)
        return f", did you mean {near[0]!r}?" if near else ""


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

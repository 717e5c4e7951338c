"""The settings of the endpoints for other people's clients: ``[plugin.compat]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hookgate import Section

DENIED = "compat_denied"
"""What a turn ends with whose model was denied its calls too often."""
NOT_CARRIED = "compat_not_carried"
"""What a request ends with that the model's wire cannot carry."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class CompatSettings(Section):
    """``[plugin.compat]``: endpoints that speak the vendors' wires."""

    aliases: dict[Name, Annotated[str, StringConstraints(pattern=r"^[^/]+/.+$")]] = Field(
        default_factory=dict
    )
    """What other names of models mean, as `provider/model`: `"gpt-small" = "ollama/qwen3"`."""
    openai: Name = "openai"
    """The provider of a model that a request of OpenAI's wire names without one."""
    anthropic: Name = "anthropic"
    """The provider of a model that a request of Anthropic's wire names without one."""
    provider_tools: tuple[Name, ...] = ()
    """Globs of the types of tools that a provider may run itself, such as `web_search_*`: nobody
    judges their calls one by one."""
    on_ask: Literal["hold", "refuse"] = "hold"
    """What becomes of a call about which somebody is to be asked: its answer waits, or the call is
    denied at once."""
    hold_seconds: float = Field(default=600, gt=0, le=604_800)
    """How long an answer waits at most for somebody who is asked. A client that says how long it
    waits itself is answered 5 s before that."""
    cancel_on_disconnect: bool = True
    """Whether a turn is cancelled when its client goes away."""

"""The settings of the endpoints for other people's clients: ``[plugin.compat]``."""

from __future__ import annotations

from difflib import get_close_matches
from random import Random
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from hookgate import Host, ModelRef, Problem, Section

DENIED = "compat_denied"
"""What a turn ends with whose model was denied its calls too often."""
LOST = "compat_rounds_lost"
"""What a history is refused with of which something is needed and not kept any longer."""
REUSED = "compat_key_reused"
"""What a request ends with whose Idempotency-Key is that of another one."""
MISFIT = "compat_misfit"
"""What an answer ends with that has not the form that was asked for."""
NOT_CARRIED = "compat_not_carried"
"""What a request ends with that the model's wire cannot carry."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


Target = Annotated[str, StringConstraints(pattern=r"^[^/]+/.+$", max_length=400)]
"""A model, as `provider/model`."""

Mode: TypeAlias = Literal["guard", "assist", "agent"]

Path: TypeAlias = Literal["chat", "responses", "embeddings", "messages", "count_tokens", "models"]
"""The paths that can be switched off."""


class Alias(Section):
    """`[plugin.compat.aliases.NAME]`: what a name stands for.

    `NAME = "provider/model"` is short for `NAME = { to = "provider/model" }`.
    """

    to: tuple[Target, ...] = Field(default=(), max_length=16)
    """The models, as `provider/model`, or one of them alone: where one fails before it has said
    anything, the next one is asked. An agent has its own where none are named."""
    weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = ()
    """How often each of `to` comes first, beside the others; none: always the first one. Requests
    of one session begin with one model. A model of the weight 0 is asked where others fail."""
    mode: Mode = "guard"
    """What the gateway adds: in `guard` nothing, in `assist` some of its tools, in `agent` all that
    an agent has."""
    tools: tuple[Name, ...] = ()
    """Globs of the gateway's tools that are offered as well, in the mode `assist`."""
    agent: str = Field(default="", max_length=200)
    """The agent that answers, in the mode `agent`."""

    @model_validator(mode="after")
    def _fits(self) -> Alias:
        if not self.to and self.mode != "agent":
            raise ValueError("found no model, expected `to` with one at least")
        if len(set(self.to)) < len(self.to):
            raise ValueError("found a model twice in `to`, expected each one once")
        if self.weights and (len(self.weights) != len(self.to) or not any(self.weights)):
            raise ValueError(
                f"found {len(self.weights)} weights for {len(self.to)} models in `to`, expected "
                "one for each, not all of them 0"
            )
        for name, mode in (("tools", "assist"), ("agent", "agent")):
            has, needs = bool(getattr(self, name)), self.mode == mode
            if has is not needs:
                found = "no" if needs else "a"
                raise ValueError(
                    f"found {found} `{name}` in the mode {self.mode!r}: the mode `{mode}` has it, "
                    "and no other"
                )
        return self

    def models(self, session: str) -> tuple[ModelRef, ...]:
        """Return the models in the order in which they are asked.

        Args:
            session: Whose requests go to one model, so that what it caches and signs is of use.
        """
        to = list(self.to)
        if self.weights:
            # No secret hangs on it: it spreads the load.
            first = Random(session).choices(to, self.weights)[0]
            to.remove(first)
            to.insert(0, first)
        return tuple(map(ModelRef.parse, to))


def lost_aliases(settings: CompatSettings, host: Host) -> list[Problem]:
    """Return the aliases whose agent there is not."""
    known = sorted(host.settings.agents) or ["main"]  # the one that is there without any section
    return [
        Problem(
            key=f"plugin.compat.aliases.{name}.agent",
            found=f"the agent {alias.agent!r}, which there is not",
            expected=f"one of {', '.join(known)}",
            nearest=next(iter(get_close_matches(alias.agent, known, n=1)), None),
        )
        for name, alias in settings.aliases.items()
        if alias.agent and alias.agent not in known
    ]


def _table(value: Any) -> Any:
    """Return an alias as the table that it is short for."""
    given = {"to": (value,)} if isinstance(value, str) else value
    if not isinstance(given, dict):
        return given
    if isinstance(given.get("to"), str):
        given = {**given, "to": (given["to"],)}
    # What a function has been handed is no JSON any more, where an array is a tuple.
    return {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}


WHOLE = frozenset(
    (
        *("model", "messages", "input", "system", "instructions", "tools", "stream", "type"),
        *("content", "role", "max_tokens", "max_completion_tokens", "max_output_tokens"),
        *("conversation", "previous_response_id", "file_id", "file_url"),
    )
)
"""Fields without which a request is another one."""


def _droppable(name: str) -> str:
    if name in WHOLE or set(name) & set(".[]* "):
        raise ValueError(
            "expected the name of a field alone, such as `seed`, and none without which a request "
            f"is another one: {', '.join(sorted(WHOLE))}"
        )
    return name


class CompatSettings(Section):
    """``[plugin.compat]``: endpoints that speak the vendors' wires."""

    aliases: dict[
        Name, Annotated[Alias, BeforeValidator(_table, json_schema_input_type=Target | Alias)]
    ] = Field(default_factory=dict)
    """What other names of models mean, as `provider/model`: `"gpt-small" = "ollama/qwen3"`; or
    a table with several."""
    off: frozenset[Path] = frozenset()
    """The paths that are not served; of each, those below `/openai` and `/anthropic` too."""
    openai: Name = "openai"
    """The provider of a model that a request of OpenAI's wire names without one."""
    anthropic: Name = "anthropic"
    """The provider of a model that a request of Anthropic's wire names without one."""
    drop: tuple[Annotated[Name, AfterValidator(_droppable)], ...] = ()
    """The fields of requests that are dropped where they go to an agent, or to a model of another
    wire: `cache_control`, `seed`. What is dropped is on record; any other that such a model cannot
    be told is a 400."""
    provider_tools: tuple[Name, ...] = ()
    """Globs of the types of tools that a provider may run itself, such as `web_search_*`: nobody
    judges their calls one by one."""
    on_ask: Literal["hold", "refuse"] = "hold"
    """What becomes of a call about which somebody is to be asked: its answer waits, or the call is
    denied at once."""
    hold_seconds: float = Field(default=600, gt=0, le=604_800)
    """How long an answer waits at most for somebody who is asked. A client that says how long it
    waits itself is answered 5 s before that."""
    system_tokens: int = Field(default=1000, ge=0)
    """The most tokens of a client's own instructions to an agent; they stand below the agent's."""
    keep_days: float = Field(default=30, ge=0, le=3650)
    """How many days a response of the Responses API is kept for whoever has asked for it, unless
    the request says `store: false`; 0 keeps none."""
    white_space_seconds: float = Field(default=0, ge=0, le=3600)
    """After how many seconds of waiting an answer in one piece begins with white space, and how
    often more of it comes, so that nobody in between takes the connection for dead; 0 for never.
    What fails behind it can have no status any more, so it breaks the connection."""
    cancel_on_disconnect: bool = True
    """Whether a turn is cancelled when its client goes away."""

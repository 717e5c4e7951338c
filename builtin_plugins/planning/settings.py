"""The settings of planning: ``[plugin.planning]``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from hookgate import Section
from hookgate.catalogue import KIND_PATTERN

_ALSO = {"organization": "agent", "organization_persona": "agent_channel"}


def _scope(found: object) -> object:
    return _ALSO.get(found, found) if isinstance(found, str) else found


Scope: TypeAlias = Annotated[Literal["global", "agent", "agent_channel"], BeforeValidator(_scope)]


class PlannedDiscoverySettings(Section):
    """``[plugin.planning.discovery]``: what turns are planned to find."""

    enabled: bool = True
    """Whether turns search for what fits them. Without, all tools are offered."""
    register_meta_tool: bool = True
    """Whether models are offered `discover_capabilities`, to search by themselves."""
    only_available: bool = True
    """Whether what lacks something that it requires is left out."""
    kind: str = Field(default="any", pattern=f"^{KIND_PATTERN}$")
    """The kind of what is searched for, such as `tool` or `skill`; `any` for all."""
    category: str = Field(default="", max_length=80)
    """The category of what is searched for; empty for all."""
    include_prompt_context: bool = True
    """Whether what was found is told to the model, beside the tools."""
    max_retries: int = Field(default=1, ge=0, le=10)
    """How often a search that has failed is tried again."""
    retry_backoff_ms: int = Field(default=150, ge=0, le=60_000)
    """Milliseconds before the first of these; before each further one it is twice as many."""
    fallback_tool_tokens: int = Field(default=4000, ge=0, le=1_000_000)
    """Tokens of tools' schemas at most, where all are offered in place of what was found."""


class OutcomeSettings(Section):
    """``[plugin.planning.outcomes]``: how the outcomes of turns are summed up, and told."""

    enabled: bool = True
    """Whether outcomes are told: as events, figures and alerts."""
    rolling_window_size: int = Field(default=100, ge=5, le=5000)
    """The last turns of a scope that count."""
    half_life: float = Field(default=20, ge=1, le=5000)
    """So many turns ago, a turn counts half as much in the weighted rate."""
    scope: Scope = "agent_channel"
    """Whose turns are summed up together: all (`global`), those of an agent (`agent`), or those of
    an agent in a channel. `organization` and `organization_persona` stand for the latter two."""
    emit_alerts: bool = True
    """Whether somebody is told when outcomes get bad."""
    alert_below_weighted_success_rate: float = Field(default=0.55, ge=0, le=1)
    """The weighted rate below which that is; below 0.6 of it, it is critical."""
    alert_min_samples: int = Field(default=8, ge=1, le=10_000)
    """So many turns are to be in the window before."""
    alert_cooldown_ms: int = Field(default=60_000, ge=0, le=86_400_000)
    """Milliseconds from one alert of a scope to the next."""

    @model_validator(mode="after")
    def _can_alert(self) -> OutcomeSettings:
        if self.alert_min_samples > self.rolling_window_size:
            raise ValueError(
                f"found `alert_min_samples` {self.alert_min_samples} above `rolling_window_size` "
                f"{self.rolling_window_size}, expected it below: nobody would ever be told"
            )
        return self


class AdaptiveSettings(Section):
    """``[plugin.planning.adaptive]``: what changes while outcomes are bad."""

    enabled: bool = True
    """Whether anything does."""
    min_samples: int = Field(default=5, ge=1, le=1000)
    """Turns of a scope before anything changes."""
    min_weighted_success_rate: float = Field(default=0.7, ge=0, le=1)
    """The weighted rate below which it does."""
    recover_success_rate: float = Field(default=0.8, ge=0, le=1)
    """The mean score of the last turns at which all is as before."""
    recover_samples: int = Field(default=5, ge=1, le=1000)
    """So many last turns these are."""
    force_all_tools_when_degraded: bool = True
    """Whether all tools are offered then, under `fallback_tool_tokens`, in place of those found."""
    force_fail_open_when_degraded: bool = True
    """Whether a `fail_closed` of another plugin is loosened then. One that the request or the
    settings ask for never is."""

    @model_validator(mode="after")
    def _apart(self) -> AdaptiveSettings:
        if self.recover_success_rate < self.min_weighted_success_rate:
            raise ValueError(
                f"found `recover_success_rate` {self.recover_success_rate} below "
                f"`min_weighted_success_rate` {self.min_weighted_success_rate}, expected it above: "
                "plans would change back and forth"
            )
        return self


class PlanningSettings(Section):
    """``[plugin.planning]``: how turns are planned."""

    enabled: bool = True
    """Whether turns are planned by this section. Without, `[turn]` alone says how they run."""
    allow_request_overrides: bool = True
    """Whether a request's flags change the plan and its outcome. `fail_closed` always holds."""
    lifecycle: bool = True
    """Whether a turn's course is told, as events `lifecycle`."""
    discovery: PlannedDiscoverySettings = PlannedDiscoverySettings.by_default()
    outcomes: OutcomeSettings = OutcomeSettings.by_default()
    adaptive: AdaptiveSettings = AdaptiveSettings.by_default()

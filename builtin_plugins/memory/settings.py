"""The settings of memory: ``[plugin.memory]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hookgate import ModelRef, Section

ShareName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]


class MemberSettings(Section):
    """``[[plugin.memory.share.NAME]]``: whose sessions share one memory; globs."""

    agent: str = "*"
    """Agents, such as `main`."""
    channel: str = "*"
    """Channels, such as `slack`. That of a plugin of the sandbox is meant where this begins with
    `wasm.`, and by no glob that is as wide as `*`."""
    account: str = "*"
    """Accounts of the channel."""
    peer: str = "*"
    """Peers, such as `bob`."""

    @model_validator(mode="after")
    def _names_somebody(self) -> MemberSettings:
        if {self.agent, self.channel, self.account, self.peer} == {"*"}:
            raise ValueError(
                "found nothing but `*`, expected at least one of agent, channel, account and "
                "peer: everybody's sessions would share one memory"
            )
        return self


class MemorySettings(Section):
    """``[plugin.memory]``: what is remembered, and for whom."""

    scope: Literal["session", "peer", "agent"] = "session"
    """Who shares what is remembered. `session`: one agent with one peer of one account on one
    channel. `peer`: the same peer on every channel; only where all channels name people alike.
    `agent`: everybody who talks with one agent."""
    share: dict[ShareName, tuple[MemberSettings, ...]] = Field(default_factory=dict)
    """Memories that several sessions share, by name: what is said there is kept in the first one
    that fits, and each of them reads all that fit, beside what is its own."""
    learn: bool = True
    """Whether what is said is kept for recall. What is kept already stays, and is recalled."""
    recall: bool = True
    """Whether a message brings what answers it into the context, without being asked to."""
    recall_tokens: int = Field(default=1000, ge=100, le=1_000_000)
    """Tokens of a context that recalled lines take at most."""
    recall_seconds: float = Field(default=1.0, gt=0, le=4)
    """So long a turn waits for what it recalls; then it goes on without."""
    recall_notes: int = Field(default=5, ge=1, le=100)
    """What the tool `recall` returns at most."""
    max_notes: int = Field(default=1000, ge=1, le=1_000_000)
    """Notes of one scope; beyond it nothing more is remembered until something is forgotten."""
    max_turns: int = Field(default=100_000, ge=1, le=10_000_000)
    """Pieces of what was said that one scope keeps for recall; beyond it the oldest go."""
    extractor: Literal["patterns", "model"] = "patterns"
    """How facts are found in what people say. `patterns` asks no model. `model` asks one besides,
    once for each message, after the answer: it finds more, and is paid for."""
    extractor_model: str = Field(default="", max_length=200)
    """Which one, as ``provider/model``; the turn's own where it is empty."""

    @model_validator(mode="after")
    def _is_a_model(self) -> MemorySettings:
        if self.extractor_model:
            ModelRef.parse(self.extractor_model)
        return self

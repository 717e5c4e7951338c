"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hookgate import OperationModel


class CardSwitchRow(OperationModel):
    """Whether cards are on."""

    on: bool
    """Whether they are shown to turns that start now."""
    why: str
    """Why not; empty where they are."""


class StatusResult(CardSwitchRow):
    """How awareness is."""

    turns: int
    """Turns in the window of the kill switch."""
    with_card: int
    """Those of them that have had a card."""
    rate: float
    """Their share."""
    threshold: float
    """The share above which cards turn themselves off."""
    samples: int
    """So many turns the window must hold for that."""
    window_hours: float
    """The length of the window."""
    cards: int
    """Cards that there are."""
    rejected: dict[str, str]
    """Why a card reaches no model, by its id."""
    warned: dict[str, str]
    """What was found in trusted cards that are used all the same, by id."""
    differing: tuple[str, ...]
    """Cards that are not the ones that were approved."""
    problems: tuple[str, ...]
    """What is wrong with files and sources."""


class FigureRow(OperationModel):
    """One figure."""

    figure: str
    """What was measured."""
    found: float | None
    """What it came to; null where there was nothing to measure."""
    goal: str
    """What is aimed at; empty where nothing is."""
    met: bool | None
    """Whether that was met."""


class CountRow(OperationModel):
    """How often something came up."""

    name: str
    """A card's id, or a router tag."""
    turns: int
    """In so many turns."""


class ReportResult(OperationModel):
    """What cards have cost, and how often they came up."""

    hours: float
    """Of the last so many hours."""
    turns: int
    """Turns in that time."""
    sessions: int
    """Sessions in that time."""
    figures: tuple[FigureRow, ...]
    """The figures, with their goals."""
    cards: tuple[CountRow, ...]
    """Cards that were shown, the most frequent first."""
    tags: tuple[CountRow, ...]
    """Router tags that were given, the most frequent first."""
    shown_for_nothing: tuple[CountRow, ...]
    """Cards that were shown to a message of the trial that needs none."""


class PointerResult(OperationModel):
    """The pointer."""

    text: str
    """What the context holds, and an AGENTS.md may."""
    tokens: int
    """What it takes."""


class CardRow(OperationModel):
    """One card."""

    id: str
    """Its id."""
    digest: str
    """SHA-256 of what it says: say it when you approve, and nothing else is approved."""
    whose: str
    """repo, configured, workspace, user or plugin."""
    priority: int
    """0 to 20; higher goes first."""
    router_tags: tuple[str, ...]
    """Tags that select it."""
    state: str
    """ready, rejected, warned, changed or waiting."""
    why: str
    """What was found, where something was."""


class CardRows(OperationModel):
    """Cards."""

    cards: tuple[CardRow, ...]
    """In the order of their ids."""


class ExplainCardsParams(OperationModel):
    """A message that nobody sends."""

    message: str = Field(max_length=100_000)
    """What it says."""
    agent: str = Field(default="", max_length=64)
    """Whose rules hold; the default agent's where it is empty."""
    session_type: Literal["main", "isolated"] = "main"
    """main is a person's, isolated nested or scheduled."""
    point: Literal["bootstrap", "mid"] = "bootstrap"
    """Whether it is the first message of a session, or a later one."""
    tools: tuple[str, ...] = ()
    """Tools that were used, for the cards that follow them."""


class ExplainResult(OperationModel):
    """What would be shown, and why the rest would not."""

    on: bool
    """Whether cards are on; what follows holds if they were."""
    tags: dict[str, str]
    """The router tags, and by what the message has them."""
    budget: int
    """Tokens of all cards."""
    tokens: int
    """What is shown takes."""
    milliseconds: float
    """What tagging and selecting took."""
    cards: tuple[dict[str, Any], ...]
    """A decision on every card, in order: id, chosen, score, tokens, reason."""
    text: str
    """What the model would read."""

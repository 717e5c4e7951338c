"""What the operations of memory take and give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from hookgate import POSITIONAL, OperationModel

Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ListParams(OperationModel):
    """Which rows are wanted; what is left out does not matter."""

    kind: Literal["", "fact", "note", "turn"] = ""
    """Facts alone, notes alone, or what was said; without it, facts and notes."""
    session: str = Field(default="", max_length=1000)
    """A session's key."""
    scope: str = Field(default="", max_length=1000)
    """A scope, such as `session:main:cli:local:me`."""
    past: bool = False
    """Also what is not known any more, since something else took its place."""
    limit: int = Field(default=50, ge=1, le=1000)
    """So many rows at most, the newest first."""
    before: str = Field(default="", pattern=r"^\d{0,18}$")
    """Only rows before this place: the ``next`` of a former answer."""


class Row(OperationModel):
    """Something that is remembered."""

    id: str
    kind: str
    """fact, note or turn."""
    scope: str
    """Whose it is."""
    text: str
    at: str
    """When it was learned or said, ISO 8601 in UTC."""
    session: str
    turn: str
    speaker: str
    taint: tuple[str, ...]
    confidence: float = 1.0
    valid_from: str = ""
    """Since when it holds, where that is known."""
    valid_to: str = ""
    """Until when it held."""
    superseded: str = ""
    """Since when it is not what is known any more."""
    ending: str = ""
    """Why: changed, corrected, confirmed or over."""
    ended_by: str = ""
    """The message that said so."""


class Rows(OperationModel):
    """Rows of memory."""

    rows: list[Row]
    next: str = ""
    """What to give as ``before`` for older rows; empty where there are none."""
    durable: bool = True
    """Whether what is remembered outlives the process."""


class Shown(OperationModel):
    """One row, with what it rests on."""

    rows: list[Row]
    sources: list[dict[str, Any]]
    """The messages that a fact was learned from."""


class SearchParams(OperationModel):
    """What is looked for, and where."""

    query: str = Field(min_length=1, max_length=2000)
    """A question, or words."""
    session: str = Field(default="", max_length=1000)
    """What this session would find; without it and `scope`, all that the caller may see."""
    scope: str = Field(default="", max_length=1000)
    """One scope."""
    as_of: str = Field(default="", max_length=40)
    """What held at this time, ISO 8601, such as 2024-05-15."""
    limit: int = Field(default=10, ge=1, le=100)
    """So many lines at most."""


class Line(OperationModel):
    """A line that was found."""

    id: str
    kind: str
    text: str
    at: str
    scope: str
    session: str
    taint: tuple[str, ...]
    why: tuple[str, ...]
    """Why it was found."""
    worth: float = 0.0
    """How much speaks for it, from 0 to 1 for the best of its kind."""
    tokens: int = 0
    shown: bool = True
    """Whether it would stand in the context."""
    reason: str = ""
    """Why it would not."""


class Lines(OperationModel):
    """Lines that were found, the best first."""

    lines: list[Line]


class Explained(OperationModel):
    """What a message would recall."""

    session: str = ""
    scopes: tuple[str, ...] = ()
    """What was looked through."""
    budget: int
    """Tokens that recalled lines may take."""
    tokens: int = 0
    """Tokens that they would take."""
    lines: list[Line] = Field(default_factory=list)
    reason: str = ""
    """Why nothing would be recalled, where that is so."""


class ForgetParams(OperationModel):
    """What to forget: any of these."""

    ids: Annotated[tuple[Id, ...], POSITIONAL] = Field(default=(), max_length=100)
    """Ids of facts, notes or messages, or how they end."""
    turn: str = Field(default="", max_length=200)
    """What was said in a turn, and what was learned from it."""
    session: str = Field(default="", max_length=1000)
    """What was said in a session, and what was learned from it."""
    scope: str = Field(default="", max_length=1000)
    """All of a scope."""
    check: bool = False
    """Only say how much would go."""

    @model_validator(mode="after")
    def _says_which(self) -> ForgetParams:
        given = [bool(one) for one in (self.ids, self.turn, self.session, self.scope)]
        if sum(given) != 1:
            raise ValueError(
                f"found {sum(given)} of ids, turn, session and scope, expected exactly one: say "
                "what is to be forgotten"
            )
        return self


class Exported(OperationModel):
    """Facts and notes, as another store can read them, and what was said."""

    rows: list[dict[str, Any]]
    next: int
    """What to give as ``after``; 0 where there are no more."""


class ImportParams(OperationModel):
    """Rows of an export."""

    rows: tuple[dict[str, Any], ...] = Field(max_length=1000)
    check: bool = False
    """Only look whether they could be imported."""
    first: int = Field(default=1, ge=1)
    """The number of the first row, for what is said of a wrong one."""
    source: str = Field(default="", max_length=200, pattern=r"^[^\x00]*$")
    """Where the rows come from, such as the name of a file."""
    trusted: bool = False
    """Whether whoever wrote them is believed: then they have the taint that they say, and
    otherwise `import:SOURCE` besides."""


class FactChanges(OperationModel):
    """What was known when, in the order in which it was learned."""

    rows: list[Row]

"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from hookgate import (
    OperationModel,
)


class Amounts(OperationModel):
    """How far one budget is used for one of those that it is for."""

    key: str
    """Names the counter: NAME.UNIT/SCOPE:SUBJECT/WINDOW."""
    used: str
    """What was charged."""
    held: str
    """What calls hold that run at this gateway."""
    limit: str
    """The most, with what it was raised by."""


class CounterRow(Amounts):
    """A counter that is used."""

    leased: str
    """What gateways have leased for calls that run and for the next ones."""
    share: float
    """Used, of the limit, from 0."""


class BudgetRow(OperationModel):
    """A budget or a limit, and how far it is used."""

    name: str
    scope: str
    of: str
    window: str
    limit: str
    over: str
    """What becomes of a call that does not fit."""
    source: str
    """``settings``, or ``operator`` where it was set while the gateway ran."""
    counters: list[CounterRow]
    """Those that are used in this window; the fullest first."""
    used: int
    """How many there are, with those that are not shown."""
    full: int
    """How many of these have nothing left."""


class BudgetRows(OperationModel):
    """The budgets and limits that hold now."""

    budgets: list[BudgetRow]
    paused: dict[str, str]
    """Sessions that are paused, and why."""


class ExplainParams(OperationModel):
    """Whose call it would be; what is left out is not looked at."""

    session: str = ""
    """A session's key: it says the agent, channel and account as well."""
    agent: str = ""
    channel: str = ""
    account: str = ""
    """As CHANNEL:ACCOUNT; each is written as in the key of a session."""
    key: str = ""
    """The key, or the id of the principal where there is none."""
    tool: str = ""
    plugin: str = ""
    heartbeat: str = ""


class ExplainRow(Amounts):
    """A budget or limit that the call would fall under."""

    left: str
    says: str
    """What it means for the next call, in words."""


class BudgetsExplained(OperationModel):
    """What holds for such a call, the tightest first."""

    budgets: list[ExplainRow]
    paused: str
    """Why the session is paused; "" where it is not."""


class Changed(OperationModel):
    """What holds now."""

    budgets: list[str]
    """The names of all budgets."""
    done: str
    """What was changed, in words."""

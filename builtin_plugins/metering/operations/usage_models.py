"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from pydantic import Field, create_model, field_validator

from hookgate import OperationModel
from hookgate.builtin_plugins.metering.calls import COUNTS, DIMENSIONS

MOST_GROUPS = 10_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?")


class UsageParams(OperationModel):
    """Which calls are wanted, and what they are told apart by. What is left out does not matter."""

    by: str = "day"
    """What sums are told apart by, up to three with commas: `day`, `month`, `session`, `agent`,
    `channel`, `account`, `principal`, `key`, `cause`, `plugin`, `tool`, `provider`, `model`;
    nothing for one sum of all."""
    since: str = ""
    """The first day, such as `2026-11-01`, or month, such as `2026-11`; days are those of UTC."""
    until: str = ""
    """The last day or month."""
    session: str | None = None
    """A session's key."""
    agent: str | None = None
    channel: str | None = None
    account: str | None = None
    principal: str | None = None
    key: str | None = None
    """The name of a key; empty for calls without one."""
    cause: str | None = None
    """What calls were for: `chat`, `tool`, `nested`, `heartbeat`, `schedule`, or a plugin's own
    word, such as `memory.extract`."""
    plugin: str | None = None
    """The plugin that made calls for a purpose of its own; empty for those of turns."""
    tool: str | None = None
    """The tool that started the turn; empty for none."""
    provider: str | None = None
    model: str | None = None
    """A model as `provider/model`."""
    limit: int = Field(default=100, ge=1, le=MOST_GROUPS)
    """So many groups at most: the last days or months, and of others the dearest."""

    @field_validator("by")
    @classmethod
    def _known(cls, by: str) -> str:
        names = [name for name in by.replace(" ", "").split(",") if name]
        unknown = [name for name in names if name not in DIMENSIONS]
        if unknown or len(names) > 3 or len(set(names)) < len(names):
            raise ValueError(f"found {by[:80]!r}, expected up to three of {', '.join(DIMENSIONS)}")
        return ",".join(names)

    @field_validator("since", "until")
    @classmethod
    def _day(cls, text: str) -> str:
        try:
            # Python reads days in other forms as well, such as 20261101; texts are compared here.
            if text:
                date.fromisoformat(_whole(text, "-01") if _DAY.fullmatch(text) else "")
        except ValueError:
            raise ValueError(
                f"found {text[:40]!r}, expected a day such as 2026-11-01 or a month such as 2026-11"
            ) from None
        return text

    @property
    def names(self) -> tuple[str, ...]:
        """What sums are told apart by."""
        return tuple(name for name in self.by.split(",") if name)

    @property
    def equal(self) -> dict[str, str]:
        """What calls must have."""
        wanted = {name: getattr(self, name, None) for name in DIMENSIONS}
        return {name: value for name, value in wanted.items() if value is not None}

    @property
    def days(self) -> tuple[str, str]:
        """The first day and the last one; "" for none."""
        # No month has a day behind it, and texts are compared.
        return _whole(self.since, "-01"), _whole(self.until, "-31")


def _whole(text: str, day: str) -> str:
    """Return a day, or that `day` of a month."""
    return text and f"{text}{day}"[:10]


class Counted(OperationModel):
    """How many calls, and all their tokens."""

    calls: int
    refused: int
    """How many of them were refused, and never sent."""
    failed: int
    """How many were sent and did not end well."""
    estimated: int
    """Of how many the counts are not the provider's own."""
    unpriced: int
    """How many were of a model without a known price; `cost_usd` lacks theirs."""
    input_tokens: int
    """All tokens of input; the parts below are in it."""
    output_tokens: int
    """All tokens of output; the parts below are in it."""


_PARTS: dict[str, Any] = {name: (int, ...) for name in COUNTS if name not in Counted.model_fields}


class Used(create_model("Parts", __base__=Counted, **_PARTS)):  # type: ignore[misc]  # made here
    """Sums of calls."""

    cache_write_tokens: int
    """What was written to the cache, for however long."""
    cost_usd: str
    """US dollars, exact to twelve places."""
    saved_usd: str
    """What caching saved; below 0 where writing the cache cost more than reading it saved."""


class Group(Used):
    """The sums of one group."""

    of: dict[str, str]
    """What the group has in common."""


class UsageSums(OperationModel):
    """What model calls have used."""

    by: list[str]
    """What the groups are told apart by."""
    groups: list[Group]
    """Days and months in their order; others from the dearest on."""
    more: int
    """How many groups were left out for `limit`; `days` and `whole` have all."""
    days: list[Group]
    """Sums by day."""
    whole: Used
    """The sum of all."""
    durable: bool
    """Whether the record outlives the process; if not, it has the last calls alone."""
    waiting: int
    """Calls that could not be recorded so far, and are in no sum yet."""


class CallRow(OperationModel):
    """One model call."""

    id: str
    at: str
    """When it ended, ISO 8601 in UTC."""
    turn: str
    cause: str
    """What it was for; see ``usage``."""
    plugin: str
    model: str
    """The model as ``provider/model``."""
    status: str
    kind: str
    """The kind of the provider's failure; empty where there is none."""
    input_tokens: int
    output_tokens: int
    cost_usd: str | None
    """US dollars, exact to twelve places; None where the model has no known price."""


class Calls(OperationModel):
    """The last calls of a session."""

    calls: list[CallRow]
    """The newest first."""

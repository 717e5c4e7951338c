"""One model call as the ledger has it: what it took, what it cost, and on whose account.

Who is charged is the root of a turn: a nested turn spends what belongs to the person, the session
and the channel that have started it. The agent is the one that was asked.

What a call was for, its `LedgerRow.cause`:

| the call | cause | plugin | tool |
|---|---|---|---|
| of a plugin, with a word of its own (`ModelRequest.cause`) | that word: ``memory.extract``, ``awareness.select`` | what stands before the first dot | of the nested turn it belongs to |
| of a nested turn that a tool has started | ``tool`` | | that tool |
| of another nested turn | ``nested`` | | |
| of a turn that a schedule has started, by the path ``heartbeat`` | ``heartbeat`` | | |
| of another turn that a schedule has started | ``schedule`` | | |
| of any other turn | ``chat`` | | |
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from hookgate import (
    Ending,
    Host,
    Instrument,
    Label,
    ModelRequest,
    Provenance,
    RecordSource,
    Turn,
    Usage,
)
from hookgate.kit.tokens.bills import TRIMS, Wording, counted
from hookgate.kit.tokens.bounds import input_bound, sizes_of
from hookgate.kit.tokens.ratios import Ratios

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.prices import Tariff

COUNTS = Usage.COUNTS
"""The names of the counts of tokens, in the order of `Usage`."""

WORDS = ("agent", "channel", "account", "principal", "key", "cause", "plugin", "tool")
"""What is known of a call beside its session and its model."""
DIMENSIONS = ("day", "month", "session", *WORDS, "provider", "model")
"""By what calls can be told apart."""
TALLIES = ("calls", "refused", "failed", "estimated", "unpriced")
"""Of how many calls a sum is: of all, of those that were not sent, of those that were sent and
did not end well, of those whose counts are not the provider's, and of those without a price."""

PICO = 10**12
"""Units of money in a dollar: costs are whole numbers of these."""

LOST = "lost"
"""How a call ended that a crash has cut off: it is charged the most that it could have used."""

MOST = 2**63 - 1
"""The most that a column of the ledger takes."""
MOST_CHARACTERS = 400
"""The longest text of a row; an index of PostgreSQL takes 2,700 bytes, and a text four of them."""


class LedgerRow(NamedTuple):
    """One row of the ledger.

    Attributes:
        id: The call's id, `ModelRequest.call_id`; no two rows have the same.
        at: When it ended, or began where nobody knows, in UTC: ISO 8601 with microseconds, which
            sorts as text.
        day: The day on which it began, in UTC, such as ``2026-11-22``.
        turn: The id of the turn that it belongs to.
        session: The session that is charged, as text.
        agent: The agent that was asked.
        channel: Where the message came in.
        account: Of which account there.
        principal: Who is charged.
        key: The key that let them in; "" where there is none.
        cause: What it was for; see the table of this module.
        plugin: The plugin that made it for a purpose of its own; "" for none.
        tool: The tool that has started the turn; "" for none.
        provider: The provider's name.
        model: The model's name at its provider.
        attempt: 0 for the plan's first model, 1 for the next one, and so on.
        iteration: 0 for the turn's first request, one more after each round of tools.
        status: How it ended, `Ending.status`; `LOST` where a crash has cut it off.
        kind: The kind of the provider's failure; "" where there is none.
        sent: Whether the provider was asked.
        usage: What it is charged; each count is a column, and so is whether they are the
            provider's own.
        cost: Units of 1e-12 dollars; None where the model has no known price.
        saved: What caching saved, in the same units; below 0 where writing the cache cost more.
        price: Which prices `cost` was made with, so that it can be made again.
        windows: What was charged to each window of a budget, by its key, in JSON; "" for none.
    """

    id: str
    at: str
    day: str
    turn: str
    session: str
    agent: str
    channel: str
    account: str
    principal: str
    key: str
    cause: str
    plugin: str
    tool: str
    provider: str
    model: str
    attempt: int
    iteration: int
    status: str
    kind: str
    sent: bool
    usage: Usage
    cost: int | None
    saved: int
    price: str
    windows: str = ""

    @classmethod
    def of(cls, turn: Turn, request: ModelRequest, began: datetime) -> LedgerRow:
        """Return the row of a call that begins; `ended` says what becomes of it.

        Args:
            turn: The turn.
            request: The request, as it is sent.
            began: When it was reserved, which is the day that it belongs to.
        """
        root = turn.root
        moment = began.astimezone(UTC).isoformat(timespec="microseconds")
        said = (
            str(root.session),
            turn.agent.name,
            root.address.channel,
            root.address.account,
            root.principal.id,
            root.principal.key,
            cause_of(turn, request),
            plugin_of(request),
            tool_of(turn),
            request.model.provider,
            request.model.model,
        )
        # By place: by name it would take twice as long, at each call of a model.
        row = (request.call_id, moment, moment[:10], turn.id, *map(sound, said))
        known = (request.attempt, request.iteration, LOST, "", True, Usage(), 0, 0, "", "")
        return cls._make((*row, *known))

    def ended(
        self, ending: Ending, usage: Usage, tariff: Tariff, at: datetime, windows: str = ""
    ) -> LedgerRow:
        """Return the row of the call once it is over.

        Args:
            ending: How it ended.
            usage: What it is charged: nothing where it was not sent; what was reserved for it,
                not reported, where nobody knows what it has used.
            tariff: What it costs.
            at: When it ended.
            windows: What it is charged to which windows.
        """
        costs = billed(ending, usage)
        cost = min(tariff.cost(usage), MOST) if tariff.known else None
        return self._replace(
            at=at.astimezone(UTC).isoformat(timespec="microseconds"),
            status=ending.status,
            kind=sound(ending.kind),
            sent=ending.sent,
            usage=usage,
            cost=cost if costs else 0,
            saved=max(min(tariff.saved(usage), MOST), -MOST) if costs else 0,
            price=tariff.version,
            windows=windows,
        )

    def to_row(self) -> dict[str, Any]:
        """Return the row, without the place that the ledger gives it."""
        row = self._asdict()
        usage: Usage = row.pop("usage")
        return {**row, **usage.counts, "reported": usage.reported}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> LedgerRow:
        """Return the call of a row."""
        usage = Usage(**{name: row[name] for name in (*COUNTS, "reported")})
        words = {name: row[name] for name in cls._fields if name != "usage"}
        return cls(**words, usage=usage)


class UsageQuery(NamedTuple):
    """Which sums of calls are wanted.

    Attributes:
        by: What they are told apart by, of `DIMENSIONS`.
        equal: What rows must have, by dimension; a model is ``provider/model``.
        first: The first day, such as ``2026-11-01``; "" for no first one.
        last: The last day; "" for no last one.
        places: Channel and account, of which rows must have one; "*" for any. None for all.
        most: So many groups at most, the dearest, or of days and months the last; 0 for all.
    """

    by: tuple[str, ...] = ()
    equal: Mapping[str, str] = {}
    first: str = ""
    last: str = ""
    places: tuple[tuple[str, str], ...] | None = None
    most: int = 0


def cause_of(turn: Turn, request: ModelRequest) -> str:
    """Return what a call is for; see the table of this module."""
    if request.cause != "turn":
        return request.cause
    if turn.parent is not None:
        return "tool" if tool_of(turn) else "nested"
    if turn.origin.provenance is Provenance.SCHEDULED:
        return "heartbeat" if turn.origin.path == "heartbeat" else "schedule"
    return "chat"


def plugin_of(request: ModelRequest) -> str:
    """Return the plugin that a call was made by for a purpose of its own; "" where it is a turn's.

    By convention the word of a plugin begins with its name and a dot.
    """
    plugin, dot, _ = request.cause.partition(".")
    return plugin if dot else ""


def tool_of(turn: Turn) -> str:
    """Return the tool by which a turn was started, or the turn that has started it; "" for none."""
    at: Turn | None = turn
    while at is not None:
        if at.origin.tool:
            return at.origin.tool
        at = at.parent
    return ""


@lru_cache(maxsize=4096)
def sound(text: str) -> str:
    """Return `text` as every database takes it: a row that none takes would never be written."""
    if "\x00" in text or not text.isascii():
        text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if len(text) <= MOST_CHARACTERS:
        return text
    # What two texts have in common at their beginning must not make one of them.
    digest = blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{text[: MOST_CHARACTERS - 33]}~{digest}"


# -- what it is charged ---------------------------------------------------------------
#
# | the call | is charged |
# |---|---|
# | was not sent | nothing |
# | ended with the provider's own figures | those |
# | ended without figures, or with impossible ones | what was counted here, as estimated |
# | ended behind its answer, with neither figures nor the mark of an end | what was reserved |
# | was refused by the provider, before a first token | nothing: no provider bills an error |
# | was cut, cancelled or lost on the way | what was reserved: the provider may have gone on |

UNBILLED = frozenset(
    ("unreachable", "rate_limited", "overloaded", "auth", "rejected", "context_overflow", "server")
)
"""Kinds of `ProviderError` that say that the provider has answered with an error, or was not
reached: it has not begun to write."""


def charged(
    request: ModelRequest, ending: Ending, usage: Usage | None, bound: Callable[[], int]
) -> Usage:
    """Return what a call is charged.

    Args:
        request: The call, as it was sent.
        ending: How it ended.
        usage: What the gateway knows of its tokens.
        bound: Returns what was reserved for its input.
    """
    if not ending.sent:
        return Usage()
    # Some providers tell what was used so far with every piece: only behind the end is it all.
    over = ending.status == "done" or (
        ending.stop is not None and usage is not None and usage.reported
    )
    if usage is not None and over:
        return usage
    if usage is None and not ending.started and ending.kind in UNBILLED:
        return Usage()
    told = usage or Usage()
    # What is known keeps its kinds, which may cost more than plain input does; the rest is added.
    rest = Usage(
        input_tokens=max(bound() - told.total_input, 0),
        output_tokens=max(request.max_output_tokens - told.total_output, 0),
        reported=False,
    )
    return told + rest


def billed(ending: Ending, used: Usage) -> bool:
    """Whether a call costs anything, so also what its provider takes for each call.

    Args:
        ending: How it ended.
        used: What it is charged, as `charged` has said.
    """
    return ending.sent and (ending.started or ending.kind not in UNBILLED or used.total > 0)


# -- what is measured of them ------------------------------------------------------

# No label names a session, a person, a key or a tool: those have no end. What one of them has used
# is told by `hookgate usage`.

CALL = "metering.call"
"""The record of a call that is over; its fields are `call_fields`."""
REFUSED = "metering.refused"
"""The record of a refusal; `code` says which."""
BUDGET = "metering.budget"
"""The record of how far a budget is used; `budget` names it, `share` is 1 where it is used up."""

_MODEL = (
    Label(name="provider", attribute="gen_ai.provider.name"),
    Label(name="model", attribute="gen_ai.request.model"),
)
INSTRUMENTS = (
    Instrument(
        name="hookgate_metering_cost_usd",
        help="US dollars that model calls have cost, of models with a known price.",
        sources=(RecordSource(record=CALL, value="cost_usd"),),
        labels=_MODEL,
        unit="{USD}",
    ),
    Instrument(
        name="hookgate_metering_cache_saved_usd",
        help="US dollars that reading from caches has saved, where it has.",
        sources=(RecordSource(record=CALL, value="saved_usd"),),
        labels=_MODEL,
        unit="{USD}",
    ),
    Instrument(
        name="hookgate_metering_tokens",
        help="Tokens of model calls, by kind; the kinds are disjoint.",
        sources=tuple(
            RecordSource(record=CALL, value=count, labels={"kind": count.removesuffix("_tokens")})
            for count in COUNTS
        ),
        labels=(*_MODEL, Label(name="kind", attribute="gen_ai.token.type")),
        unit="{token}",
    ),
    Instrument(
        name="hookgate_metering_calls",
        help="Model calls that are in the ledger, by how they ended.",
        sources=(RecordSource(record=CALL),),
        labels=(
            *_MODEL,
            Label(
                name="status",
                values=frozenset(("done", "refused", "failed", "cut", "cancelled", "lost")),
            ),
            Label(name="reported", truth=True),
            Label(name="priced", truth=True),
        ),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_metering_refusals",
        help="Model calls that metering has refused, by why.",
        sources=(RecordSource(record=REFUSED),),
        labels=(Label(name="code", attribute="error.type"),),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_metering_budget_used_ratio",
        help="How far a budget is used, of the window that was charged last; 1 is all of it.",
        kind="gauge",
        sources=(RecordSource(record=BUDGET, value="share"),),
        labels=(Label(name="budget"),),
        unit="1",
    ),
)
"""All of them, for ``host.instruments``."""


def call_fields(call: LedgerRow) -> dict[str, Any]:
    """Return the fields of the record of a call."""
    return {
        "provider": call.provider,
        "model": call.model,
        "status": call.status,
        "reported": call.usage.reported,
        "priced": call.cost is not None,
        "cost_usd": (call.cost or 0) / PICO,
        # A counter only grows: what writing a cache costs stands in `cost_usd` anyway.
        "saved_usd": max(call.saved, 0) / PICO,
        **{name: count for name, count in call.usage.counts.items() if count},
    }


# -- how large a call may become ---------------------------------------------------

LEAST = 256
"""Tokens of output below which no answer is worth its input."""
SAMPLES = 200
"""Answers of each agent, by what they were for, that are remembered."""
ENOUGH = 20
"""So many there must be before the longest of them say anything."""
MOST_KEPT = 1000


class Outputs:
    """Remembers how much the calls of each agent have written, each cause by itself."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], deque[int]] = OrderedDict()

    def note(self, agent: str, cause: str, tokens: int) -> None:
        """Remember what an answer has written that came to its end."""
        seen = self._seen.get((agent, cause))
        if seen is None:
            seen = self._seen[agent, cause] = deque(maxlen=SAMPLES)
            if len(self._seen) > MOST_KEPT:
                self._seen.popitem(last=False)
        self._seen.move_to_end((agent, cause))
        seen.append(tokens)

    def least(self, agent: str, request: ModelRequest) -> int:
        """Return the tokens below which a call is refused, not cut.

        It is what half of the agent's calls have used, and `LEAST` at least, so that most answers
        come to their end; never more than the request asks for.
        """
        usual = max(LEAST, self._share(agent, request.cause, 0.5) or 0)
        return min(usual + _thinking(request.options), request.max_output_tokens)

    def ample(self, agent: str, request: ModelRequest) -> int:
        """Return the tokens that are enough for a call: twice what 99 of 100 have used."""
        longest = self._share(agent, request.cause, 0.99)
        most = request.max_output_tokens
        if longest is None:
            return most
        return min(max(2 * longest, self.least(agent, request)), most)

    def _share(self, agent: str, cause: str, share: float) -> int | None:
        seen = self._seen.get((agent, cause))
        if seen is None or len(seen) < ENOUGH:
            return None
        return sorted(seen)[int(share * (len(seen) - 1))]


def _thinking(options: Mapping[str, Any]) -> int:
    """Return what a request gives to thoughts: Anthropic takes no lower limit than that."""
    thinking = options.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return budget if type(budget) is int and budget > 0 else 0


# -- `Sizing`: what is reserved for a call ---------------------------------------

DRAWS = frozenset(("audio", "modalities"))
"""Options by which a model answers with something else than text, which costs more."""


class Size(NamedTuple):
    """What is reserved for a call.

    Attributes:
        input_tokens: Of its input.
        output_tokens: Of its output: all that its provider is told that it may write.
        plain: Whether all of it is text, so that no dearer kind is billed.
    """

    input_tokens: int
    output_tokens: int
    plain: bool


class Sizing:
    """Says how large calls are, and learns of those that have ended.

    Args:
        host: The gateway.

    Attributes:
        outputs: What calls have written.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ratios = Ratios()
        self.outputs = Outputs()

    def of(self, request: ModelRequest) -> Size:
        """Return what is to be reserved for `request`.

        With a picture, a sound or a document in it the whole is taken at its bound.
        """
        sizes = sizes_of(request)
        most = input_bound(self._host, request)
        if not sizes.media:
            most = min(most, self._ratios.most(str(request.model), sizes.counts))
        plain = not sizes.media and DRAWS.isdisjoint(request.options)
        return Size(most, request.max_output_tokens, plain)

    def recounted(self, request: ModelRequest, usage: Usage) -> Usage:
        """Return an estimate with the input as the model's other bills have it."""
        sizes = sizes_of(request)
        known = None if sizes.media else self._ratios.count(str(request.model), sizes.counts)
        own = counted(self._host, request, Wording("", "")).input_tokens
        # What a provider has told before its end is better than both.
        if known is None or usage.total_input != usage.input_tokens or usage.input_tokens != own:
            return usage
        return replace(usage, input_tokens=known)

    def learn(self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage) -> None:
        """Learn of a call that has ended, where its provider's figures are of all of it."""
        if ending.status != "done":
            return
        self.outputs.note(turn.agent.name, request.cause, usage.total_output)
        if not usage.reported or not TRIMS.isdisjoint(request.options):
            return
        sizes = sizes_of(request)
        if not sizes.media:
            self._ratios.learn(str(request.model), sizes.counts, usage.total_input)

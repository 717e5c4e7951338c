"""Whether cards are on, and the kill switch that decides it by the record of every turn."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, quantiles
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import (
    SWITCHES,
    Host,
    Instrument,
    Label,
    Provenance,
    RecordSource,
    StoreError,
    Switch,
    Turn,
)
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings, KillSwitchSettings
from hookgate.kit.json_lines import JsonLines, JsonLinesWriter, read_json_lines
from hookgate.metrics import OTHER

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.operations import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """Whether cards are on; kept as a switch, so that it survives a restart.

    Attributes:
        on: Whether they are.
        reason: Why not.
        at: When it was last changed, in milliseconds since 1970.
        since: The window holds no turn before this, in milliseconds since 1970.
    """

    on: bool = True
    reason: str = ""
    at: int = 0
    since: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, held: Any) -> SwitchState:
        """Return what `to_json` wrote; cards are on where nobody has written anything (None).

        Raises:
            ValueError: It is not what `to_json` writes.
        """
        if held is None:
            return cls()
        if not isinstance(held, dict):
            raise ValueError(f"found {type(held).__name__}, expected an object")
        on, reason = held.get("on"), held.get("reason", "")
        at, since = held.get("at", 0), held.get("since", 0)
        if not (isinstance(on, bool) and isinstance(reason, str)):
            raise ValueError("found no `on` and `reason`")
        if not (type(at) is int and type(since) is int):
            raise ValueError("found `at` or `since` that is no integer")
        return cls(on=on, reason=reason, at=at, since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardWindow:
    """The turns that are looked back on.

    Attributes:
        turns: All of them.
        triggered: Those that have had a card.
        rate: ``triggered / turns``; 0 where there are none.
    """

    turns: int
    triggered: int

    @property
    def rate(self) -> float:
        """The share of turns that have had a card."""
        return self.triggered / self.turns if self.turns else 0.0


class KillSwitch:
    """Counts turns, and says when it is too much. It touches no file.

    Attributes:
        state: Whether cards are on.
    """

    def __init__(self, settings: KillSwitchSettings, state: SwitchState | None = None) -> None:
        self.settings = settings
        self.state = state or SwitchState()
        self._turns: deque[tuple[int, bool]] = deque()
        self._triggered = 0

    def replay(self, turns: Iterable[tuple[int, bool]]) -> None:
        """Count turns of an earlier run, as ``(milliseconds since 1970, had a card)``."""
        for at, triggered in turns:
            if at >= self.state.since:
                self._count(at, triggered)

    def add(self, at: int, *, triggered: bool) -> CardWindow | None:
        """Count a turn; return the window where it has turned cards off now.

        Args:
            at: When it ended, in milliseconds since 1970.
            triggered: Whether it had a card.
        """
        self._count(at, triggered)
        window, rules = self.window(at), self.settings
        if not (rules.enabled and self.state.on and window.turns >= rules.samples):
            return None
        if window.rate <= rules.threshold:
            return None
        why = (
            f"{window.triggered} of {window.turns} turns had a card in "
            f"{rules.window_hours:g} hours: {window.rate:.1%}, at most {rules.threshold:.0%} "
            "were expected"
        )
        self.state = replace(self.state, on=False, reason=why, at=at)
        return window

    def turn_on(self, at: int) -> None:
        """Turn cards on again; the window begins afresh."""
        self._turns.clear()
        self._triggered = 0
        self.state = SwitchState(on=True, at=at, since=at)

    def turn_off(self, at: int, reason: str) -> None:
        """Turn cards off, for `reason`."""
        self.state = replace(self.state, on=False, reason=reason, at=at)

    def take(self, state: SwitchState) -> None:
        """Take over what another gateway switched; of the window stays what is not before it."""
        self.state = state
        turns, self._turns, self._triggered = self._turns, deque(), 0
        self.replay(turns)

    def window(self, at: int) -> CardWindow:
        """Return the window that ends at `at`, in milliseconds since 1970."""
        self._set_back(at)
        start = at - int(self.settings.window_hours * 3_600_000)
        while self._turns and self._turns[0][0] < start:
            self._triggered -= self._turns.popleft()[1]
        return CardWindow(turns=len(self._turns), triggered=self._triggered)

    def _count(self, at: int, triggered: bool) -> None:
        self._set_back(at)
        self._turns.append((at, triggered))
        self._triggered += triggered

    def _set_back(self, now: int) -> None:
        """Count turns of a clock that was ahead as if they had ended `now`.

        They would stay in the window until that time comes, and keep all behind them in it.
        """
        ahead = []
        while self._turns and self._turns[-1][0] > now:
            ahead.append((now, self._turns.pop()[1]))
        self._turns.extend(reversed(ahead))


# -- Whether cards are on, and the record of every turn that decides it ----------

PART = "awareness"
"""What `status` calls the plugin where it is off."""

SWITCH = "awareness.cards"
"""The name of the switch, which all gateways on one store share."""

RECORDS = "awareness records"
STATE = "awareness switch"

TURN_ON = "`hookgate awareness enable` turns them on again"


def milliseconds(host: Host) -> int:
    """Return the time of the host's clock, in milliseconds since 1970."""
    return int(host.clock.now().timestamp() * 1000)


class CardSwitch:
    """The switch, and the file of records.

    Attributes:
        settings: The plugin's settings as they are now.
        switch: Counts turns.
        recent: The last turns of the last sessions.
    """

    def __init__(self, settings: AwarenessSettings) -> None:
        self.settings = settings
        self.switch = KillSwitch(settings.kill_switch)
        self.recent = Recent()
        self._host: Host | None = None
        self._writer: JsonLinesWriter | None = None
        self._changing = asyncio.Lock()
        self._version = 0
        self._saving: Mapping[str, Any] = {}
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def on(self) -> bool:
        """Whether cards are shown to turns that start now."""
        return self.settings.enabled and self.switch.state.on

    @property
    def why_off(self) -> str:
        """Why they are not; "" where they are."""
        if not self.settings.enabled:
            return "`plugin.awareness.enabled` is false"
        return "" if self.switch.state.on else self.switch.state.reason

    def folder(self, host: Host) -> Path:
        """Return the folder of the plugin's files."""
        return host.settings.home / "awareness"

    # -- opening -----------------------------------------------------------

    async def open(self, host: Host) -> None:
        """Read what earlier runs left, and begin to write."""
        self._host = host
        self._unwatch = host[SWITCHES].watch(SWITCH, self._heard)
        self.switch.state = await self._read_state(host)
        records = self.settings.records
        if records.enabled:
            path = self.folder(host) / "turns.jsonl"
            start = milliseconds(host) - int(self.switch.settings.window_hours * 3_600_000)
            since = max(start, self.switch.state.since)

            def replay() -> None:
                found = read_turns(path, records.keep, since)
                self.switch.replay((record.timestamp, bool(record.injected)) for record in found)

            try:
                await asyncio.to_thread(replay)
            except OSError as error:
                host.standing(RECORDS).bad(f"the records of earlier turns cannot be read: {error}")
            self._writer = self._opened(host, path)
        self._say(host)

    def _opened(self, host: Host, path: Path) -> JsonLinesWriter:
        records = self.settings.records
        file = JsonLines(path, max_bytes=records.max_bytes, keep=records.keep, secrets=host.secrets)
        standing = host.standing(RECORDS)
        return JsonLinesWriter(
            file,
            failed=lambda error: standing.bad(f"records of turns cannot be written: {error}"),
            worked=standing.good,
        )

    async def _read_state(self, host: Host) -> SwitchState:
        try:
            known = await host[SWITCHES].get(SWITCH)
            self._version = known.version
            return SwitchState.from_json(known.value)
        except (StoreError, ValueError) as error:
            # Whether they were off cannot be known: off costs nothing, on may cost every turn.
            host.log.error("the switch cannot be read", switch=SWITCH, error=str(error))
            return SwitchState(on=False, reason=f"the switch {SWITCH} cannot be read ({error})")

    def _heard(self, switch: Switch) -> None:
        """Take over what another gateway on the same store has switched."""
        host = self._host
        if host is None or switch.version <= self._version:
            return
        self._version = switch.version
        if switch.value == self._saving:
            return
        try:
            self.switch.take(SwitchState.from_json(switch.value))
        except ValueError as error:
            host.log.error("the switch cannot be read", switch=SWITCH, error=str(error))
        self._say(host)

    async def close(self) -> None:
        """Write what is still on its way."""
        self._unwatch()
        if self._writer is not None:
            await self._writer.close()
            self._writer = None

    def take_settings(self, settings: AwarenessSettings) -> None:
        """Take over changed settings; turns that run go on as they began."""
        self.settings = settings
        self.switch.settings = settings.kill_switch
        if self._host is not None:
            self._say(self._host)

    # -- turns -------------------------------------------------------------

    async def record(self, host: Host, record: TurnRecord, told: Mapping[str, Any]) -> None:
        """Keep the record of a turn, and turn cards off where too many turns had one.

        Args:
            host: The gateway.
            record: What was decided.
            told: The same, and what was not chosen and why, for `recent`.
        """
        self.recent.add(record.session, told)
        line = record.to_json()
        if self._writer is not None:
            self._writer.add(line)
        host.metric("awareness.turn", **{key: line[key] for key in line if key != "timestamp"})
        window = self.switch.add(record.timestamp, triggered=bool(record.injected))
        if window is not None:
            await self._tripped(host, window)

    async def _tripped(self, host: Host, window: CardWindow) -> None:
        self._say(host)
        host.log.error("cards turned themselves off", reason=self.switch.state.reason)
        host.metric(
            "awareness.tripped",
            rate=round(window.rate, 4),
            turns=window.turns,
            triggered=window.triggered,
            threshold=self.switch.settings.threshold,
        )
        async with self._changing:
            await self._save(host, last_word=False)
        reason = self.switch.state.reason
        await host.record("awareness_disabled", by="the kill switch", reason=reason)

    # -- the switch --------------------------------------------------------

    async def turn_on(self, host: Host) -> None:
        """Turn cards on, with a window that begins now."""
        async with self._changing:
            self.switch.turn_on(milliseconds(host))
            self._say(host)
            host.metric("awareness.enabled")
            await self._save(host)

    async def turn_off(self, host: Host, reason: str) -> None:
        """Turn cards off until somebody turns them on."""
        async with self._changing:
            self.switch.turn_off(milliseconds(host), reason)
            self._say(host)
            await self._save(host)

    def window(self, host: Host) -> CardWindow:
        """Return the turns that count now."""
        return self.switch.window(milliseconds(host))

    def records(self, host: Host, since: int = 0) -> Sequence[TurnRecord]:
        """Return what is on record, oldest first. It blocks."""
        path = self.folder(host) / "turns.jsonl"
        return list(read_turns(path, self.settings.records.keep, since))

    async def flush(self) -> None:
        """Wait until everything that was recorded is in the file."""
        if self._writer is not None:
            await self._writer.flush()

    def _say(self, host: Host) -> None:
        state = self.switch.state
        host.standing(PART).bad("" if state.on else f"cards are off: {state.reason}; {TURN_ON}")

    async def _save(self, host: Host, *, last_word: bool = True) -> None:
        """Keep the switch; where another gateway switched meanwhile, override it or follow it."""
        self._saving = self.switch.state.to_json()
        switches = host[SWITCHES]
        try:
            while (made := await switches.put(SWITCH, self._saving, version=self._version)) is None:
                there = await switches.get(SWITCH)
                if not last_word:
                    self._heard(there)
                    return
                self._version = there.version
            self._version = made.version
        except StoreError as error:
            host.standing(STATE).bad(f"whether cards are on is lost at the next start: {error}")
        else:
            host.standing(STATE).good()


# -- records ---------------------------------------------------------------------

# What was decided in each turn, with a card or without, and the figures made of it.

SessionType: TypeAlias = Literal["main", "isolated"]

SESSIONS = 1000
"""Sessions whose last turns are remembered."""

TURNS = 10
"""Turns of each that are remembered."""


def session_type(turn: Turn) -> SessionType:
    """Return ``main`` for a turn that a person started, ``isolated`` for any other."""
    alone = turn.depth > 0 or turn.origin.provenance in _ALONE
    return "isolated" if alone else "main"


_ALONE = (Provenance.INTER_SESSION, Provenance.SCHEDULED, Provenance.INTERNAL_SYSTEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A card that a model got to read.

    Attributes:
        id: The card's id.
        score: How well it fitted, 0 to 1.
        tokens: What its block took.
    """

    id: str
    score: float
    tokens: int

    def to_json(self) -> dict[str, Any]:
        """Return it as a line of the file has it."""
        score = round(self.score, 4)
        return {"id": self.id, "relevanceScore": score, "tokensUsed": self.tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """What was decided in one turn.

    Attributes:
        timestamp: When the turn ended, in milliseconds since 1970-01-01 UTC.
        session: The session's key.
        session_type: ``main`` or ``isolated``.
        tags: The router tags, sorted.
        injected: The cards that a model got to read, in their order.
        selection_ms: What tagging and selecting took, in milliseconds.
    """

    timestamp: int
    session: str
    session_type: SessionType
    tags: tuple[str, ...] = ()
    injected: tuple[Injected, ...] = ()
    selection_ms: float = 0.0

    @property
    def tokens(self) -> int:
        """What all cards took together."""
        return sum(card.tokens for card in self.injected)

    def to_json(self) -> dict[str, Any]:
        """Return the record as a line of the file has it."""
        return {
            "timestamp": self.timestamp,
            "sessionKey": self.session,
            "sessionType": self.session_type,
            "routerTags": list(self.tags),
            "injected": [card.to_json() for card in self.injected],
            "totalTokens": self.tokens,
            "selectionTimeMs": round(self.selection_ms, 3),
        }

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> TurnRecord | None:
        """Read a line of the file; None where it is not one of `to_json`."""
        try:
            return cls(
                timestamp=int(held["timestamp"]),
                session=str(held["sessionKey"]),
                session_type="isolated" if held.get("sessionType") == "isolated" else "main",
                tags=tuple(map(str, held.get("routerTags", ()))),
                injected=tuple(
                    Injected(
                        id=str(card["id"]),
                        score=float(card.get("relevanceScore", 0.0)),
                        tokens=int(card.get("tokensUsed", 0)),
                    )
                    for card in held.get("injected", ())
                ),
                selection_ms=float(held.get("selectionTimeMs", 0.0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return None


def read_turns(path: Path, keep: int, since: int = 0) -> Iterator[TurnRecord]:
    """Yield the records of a file and of those put aside, oldest first. It blocks.

    Args:
        path: The file that is written now.
        keep: The highest number of a file that was put aside.
        since: Records before this are passed over; milliseconds since 1970.
    """
    older = (path.with_name(f"{path.name}.{number}") for number in range(keep, 0, -1))
    for place in (*older, path):
        for held in read_json_lines(place):
            record = TurnRecord.from_json(held)
            if record is not None and record.timestamp >= since:
                yield record


@dataclass(slots=True)
class Recent:
    """The last turns of the last sessions, for a model that asks about its own."""

    _sessions: OrderedDict[str, deque[Mapping[str, Any]]] = field(default_factory=OrderedDict)

    def add(self, session: str, told: Mapping[str, Any]) -> None:
        """Remember what was decided in a turn of `session`."""
        turns = self._sessions.setdefault(session, deque(maxlen=TURNS))
        self._sessions.move_to_end(session)
        turns.append(told)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    def of(self, session: str) -> Sequence[Mapping[str, Any]]:
        """Return the last turns of `session`, oldest first."""
        return tuple(self._sessions.get(session, ()))


# -- report ----------------------------------------------------------------------

# Success figures: what cards have cost, how often they came up, and how often for nothing.

TOKENS_WITH_CARD = 1500
SHARE_OF_SESSIONS = 0.15
FALSE_INJECTIONS = 0.05
SHOWN_WHEN_IT_FITS = 0.90
"""What is aimed at: at most, less than, less than, and more than."""


def figures(records: Sequence[TurnRecord], trial: Trial | None) -> list[dict[str, Any]]:
    """Return the figures with their goals, JSON-ready; a figure of nothing is None.

    Args:
        records: The records of turns, oldest first.
        trial: What messages whose cards are known came to, if they were tried.
    """
    with_card = [record for record in records if record.injected]
    sessions = {record.session for record in records}
    tokens = [record.tokens for record in with_card]
    times = [record.selection_ms for record in records]
    none = max((record.tokens for record in records if not record.injected), default=None)
    rows = [
        _row("tokens of cards in a turn without a card", none, "0", lambda n: n == 0),
        _row("tokens of cards in a turn with a card, mean", _mean(tokens, 1)),
        _row(
            "tokens of cards in a turn with a card, highest",
            max(tokens, default=None),
            f"at most {TOKENS_WITH_CARD}",
            lambda n: n <= TOKENS_WITH_CARD,
        ),
        _row("share of turns with a card", _share(len(with_card), len(records))),
        _row(
            "share of sessions with a card",
            _share(len({one.session for one in with_card}), len(sessions)),
            f"less than {SHARE_OF_SESSIONS}",
            lambda n: n < SHARE_OF_SESSIONS,
        ),
        _row("milliseconds to tag and select, mean", _mean(times, 3)),
        _row(
            "milliseconds to tag and select, 99th percentile",
            round(quantiles(times, n=100, method="inclusive")[98], 3) if len(times) > 1 else None,
        ),
    ]
    if trial is not None:
        rows += [
            _row(
                f"share of {trial.needless} messages that need no card and show one",
                _share(trial.wrong, trial.needless),
                f"less than {FALSE_INJECTIONS}",
                lambda n: n < FALSE_INJECTIONS,
            ),
            _row(
                f"share of {trial.needing} messages that show the shipped card which they need",
                _share(trial.hits, trial.needing),
                f"more than {SHOWN_WHEN_IT_FITS}",
                lambda n: n > SHOWN_WHEN_IT_FITS,
            ),
        ]
    return rows


def seen(records: Sequence[TurnRecord]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return in how many turns each card was shown and each tag given, the most frequent first."""
    cards = Counter(card.id for record in records for card in record.injected)
    tags = Counter(tag for record in records for tag in record.tags)
    return dict(cards.most_common()), dict(tags.most_common())


def _row(
    figure: str,
    found: float | None,
    goal: str = "",
    met: Callable[[float], bool] | None = None,
) -> dict[str, Any]:
    held = None if found is None or met is None else met(found)
    return {"figure": figure, "found": found, "goal": goal, "met": held}


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(fmean(values), digits) if values else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# -- What is measured of cards, and of the switch that turns them off ------------

# Awareness is to take less than 10 ms.
SELECTION_BOUNDARIES = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)

INSTRUMENTS = (
    Instrument(
        name="hookgate_awareness_turns",
        help="Turns that awareness has looked at, with or without a card injected.",
        sources=(RecordSource(record="awareness.turn"),),
        labels=(
            Label(
                name="session_type",
                field="sessionType",
                values=frozenset(("main", "isolated", OTHER)),
            ),
            Label(name="injected", truth=True),
        ),
        unit="{turn}",
    ),
    Instrument(
        name="hookgate_awareness_tokens",
        help="Tokens of injected cards.",
        sources=(RecordSource(record="awareness.turn", value="totalTokens"),),
        unit="{token}",
    ),
    Instrument(
        name="hookgate_capabilities_injected",
        help="Injections of a capability's card.",
        sources=(RecordSource(record="awareness.turn", each="injected"),),
        labels=(Label(name="capability", field="id"),),
        unit="{card}",
    ),
    Instrument(
        name="hookgate_awareness_selection_seconds",
        help="Seconds in which awareness chose the cards of a turn.",
        kind="histogram",
        sources=(RecordSource(record="awareness.turn", value="selectionTimeMs", scale=0.001),),
        boundaries=SELECTION_BOUNDARIES,
        otel="hookgate.awareness.selection.duration",
        unit="s",
    ),
    Instrument(
        name="hookgate_awareness_tripped",
        help="1 once awareness has turned itself off in this process, 0 when it is on again.",
        kind="gauge",
        sources=(
            RecordSource(record="awareness.tripped"),
            RecordSource(record="awareness.enabled", scale=0),
        ),
    ),
)

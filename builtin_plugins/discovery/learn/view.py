"""Examples: what a turn teaches, and the bounded view of it in memory."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hookgate import WHOLE_ANSWER, Message, Outcome, Provenance, Tool, Turn
from hookgate.builtin_plugins.discovery.index.documents import words_of
from hookgate.builtin_plugins.discovery.show.text import READ_TOOL
from hookgate.wire import well_formed

META_TOOL = "discover_capabilities"
"""The tool by which a model finds more; what it reveals counts as selected."""

MAX_CHARS = 500
"""The longest message that is kept, in characters.

A longer one mostly carries something pasted, which is not the sender's own word and may be
somebody's letter, and it asks for several things at once, so that it resembles no later query.
"""

HEURISTIC = "heuristic"
"""The source of an outcome that no plugin has judged; see `hookgate.core.turn.end`."""


def fold(text: str) -> str:
    """Return `text` as examples are compared: case, width and white space do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def kept_text(text: str, redact: Callable[[str], str]) -> str | None:
    """Return `text` as it is kept, or None where it is not.

    Not kept are an empty text, one past `MAX_CHARS`, one that no database takes, and one that
    holds a secret: a masked text is no query that anybody sends again, and what else stands
    beside a secret is better not kept either.

    Args:
        text: The message.
        redact: Masks every known secret.
    """
    kept = text.strip()
    if not fold(kept) or len(kept) > MAX_CHARS or "\0" in kept or well_formed(kept) != kept:
        return None
    return kept if redact(kept) == kept else None


def used_well(turn: Turn, outcome: Outcome | None, *, judged_only: bool = False) -> tuple[str, ...]:
    """Return the ids of the capabilities that `turn` used well, each once, in order of use.

    Used well is a tool that was selected for the turn, or revealed by `META_TOOL`, that was
    called and answered without an error, in a turn that was a success. Two things keep text
    of third parties from teaching anything: the message has to be a principal's own, and a
    call counts only where the model had read nothing tainted when it asked for it. That a
    request calls its own turn a success teaches nothing either.

    Args:
        turn: The turn, ended.
        outcome: How it went; None where nobody knows.
        judged_only: Whether the core's own rough judgement does not count.
    """
    if not turn.calls or outcome is None or outcome.status != "success":
        return ()
    if outcome.claimed or not _typed(turn):
        return ()
    if judged_only and outcome.source == HEURISTIC:
        return ()
    clean = _asked_before_any_taint(turn.messages)
    revealed: set[str] = set()
    used: dict[str, None] = {}
    for done in turn.calls:
        tool, result = done.call.tool, done.result
        if result.is_error or result.status != "done":
            continue
        if tool.name == META_TOOL:
            revealed.update(result.reveal)
        capability = f"tool:{tool.name}"
        if (
            (capability in turn.selections or tool.name in revealed)
            and _teachable(tool)
            and done.call.id in clean
        ):
            used[capability] = None
    return tuple(used)


def failed_with(turn: Turn, outcome: Outcome | None) -> tuple[str, ...]:
    """Return the ids of the capabilities whose calls ended in an error in a turn that failed.

    Args:
        turn: The turn, ended.
        outcome: How it went; None where nobody knows.
    """
    if outcome is None or outcome.status != "failed" or outcome.claimed or not _typed(turn):
        return ()
    clean = _asked_before_any_taint(turn.messages)
    failed = [
        f"tool:{done.call.tool.name}"
        for done in turn.calls
        if done.result.is_error and done.result.status in ("done", "failed")
        if done.call.id in clean
    ]
    return tuple(dict.fromkeys(failed))


def is_whole(messages: Sequence[Message]) -> bool:
    """Whether the stored messages of a turn are those of one that came to its answer."""
    last = messages[-1]
    return (
        _typed_message(messages[0])
        and last.role == "assistant"
        and not last.tool_uses
        and len(last.text) >= WHOLE_ANSWER
    )


def used_well_in(messages: Sequence[Message], tools: Mapping[str, Tool]) -> tuple[str, ...]:
    """Return what `used_well` would, as far as the stored messages of a whole turn tell.

    They do not say what was selected or revealed, so a tool counts that is not offered on every
    turn; nor what a plugin judged, so an answer counts that the core takes for a whole one.

    Args:
        messages: All messages of the turn; `is_whole` holds for them.
        tools: The tools that there are, by name.
    """
    clean = _asked_before_any_taint(messages)
    names = {use.id: use.name for message in messages for use in message.tool_uses}
    used: dict[str, None] = {}
    for message in messages:
        for result in message.tool_results:
            tool = tools.get(names.get(result.tool_use_id, ""))
            if (
                tool is not None
                and _teachable(tool)
                and not result.is_error
                and result.tool_use_id in clean
            ):
                used[f"tool:{tool.name}"] = None
    return tuple(used)


def _teachable(tool: Tool) -> bool:
    return tool.owner == "host" and not tool.always_on and tool.name != READ_TOOL


def _typed(turn: Turn) -> bool:
    """Whether a principal wrote the message: no other session, schedule, channel or tool."""
    return (
        turn.parent is None
        and turn.origin.provenance is Provenance.EXTERNAL_USER
        and _typed_message(turn.message)
    )


def _typed_message(message: Message) -> bool:
    external = message.provenance is Provenance.EXTERNAL_USER
    return message.role == "user" and external and not message.taint


def _asked_before_any_taint(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that the model asked for while all it had read was clean.

    A message of the model carries the taint of everything that it had read.
    """
    clean: set[str] = set()
    tainted: set[str] = set()
    for message in messages:
        if message.role == "assistant":
            (tainted if message.taint else clean).update(use.id for use in message.tool_uses)
    return clean - tainted  # some models give the same id to calls of two rounds


# -- Examples, and the bounded view of them in memory ----------------------------

Level: TypeAlias = "OrderedDict[str, Example]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleBounds:
    """How many examples are kept at most.

    Attributes:
        per_capability: Of one capability, in one scope.
        total: Of one scope.
        overall: Of all scopes together.
    """

    per_capability: int = 30
    total: int = 10_000
    overall: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A query that a capability has answered well.

    Attributes:
        scope: Whose it is; it is never seen from another.
        capability: The capability's id.
        text: The query.
        folded: The query as it is compared.
        id: Names scope, capability and folded text: SHA-256, 64 hex digits.
        count: How often it was used.
        learned: When it was first used, in microseconds since 1970.
        used: When it was last used, likewise; no two examples of a gateway have the same.
        foreign: Whether it came in by an import that nobody has vouched for, and was not used well
            here since.
    """

    scope: str
    capability: str
    text: str
    folded: str
    id: str
    count: int = 1
    learned: int
    used: int
    foreign: bool = False

    @classmethod
    def new(cls, scope: str, capability: str, text: str, *, at: int) -> Example:
        """Return an example that is used for the first time, `at` microseconds since 1970."""
        folded = fold(text)
        name = json.dumps([scope, capability, folded]).encode()
        return cls(
            scope=scope,
            capability=capability,
            text=text,
            folded=folded,
            id=hashlib.sha256(name).hexdigest(),
            learned=at,
            used=at,
        )


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """The examples of one scope at one time.

    Attributes:
        version: Another number for each other set of texts and owners of the scope.
        texts: The queries.
        owners: The ids of the capabilities that they belong to, in the same order.
        foreign: The places of those that are `Example.foreign`.
    """

    version: int = 0
    texts: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    foreign: frozenset[int] = frozenset()


NO_EXAMPLES = ExampleSet()


def said_alike(query: str, capability: str, examples: ExampleSet) -> list[str]:
    """Return the examples of a capability that have the most words in common with a query.

    At most two, the most alike first; none that has no word in common.
    """
    words = frozenset(words_of(query))
    shares: list[tuple[float, str]] = []
    for text, owner in zip(examples.texts, examples.owners, strict=True):
        if owner == capability and (own := frozenset(words_of(text))):
            shares.append((len(words & own) / len(words | own), text))
    return [text for share, text in sorted(shares, reverse=True)[:2] if share > 0]


class ExampleView:
    """Examples in memory, bounded. The least recently used ones go first.

    It belongs to one thread at a time.

    Args:
        bounds: How many are kept.
    """

    def __init__(self, bounds: ExampleBounds) -> None:
        self._bounds = bounds
        # Each level in the order of use, the least recent first.
        self._all: Level = OrderedDict()
        self._scopes: dict[str, Level] = {}
        self._owners: dict[tuple[str, str], Level] = {}
        self._versions: dict[str, int] = {}
        self._sets: dict[str, ExampleSet] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Example]:
        """Yield all, the least recently used first."""
        return iter(self._all.values())

    def __contains__(self, example: Example) -> bool:
        return example.id in self._all

    def get(self, example_id: str) -> Example | None:
        """Return the example with this id."""
        return self._all.get(example_id)

    def keep(self, examples: Iterable[Example]) -> list[Example]:
        """Take in `examples` as used now, in this order; return what went for them.

        One that is there already is replaced. The bounds are kept once all are in: first
        those of each capability, then those of each scope, then that of all.
        """
        touched = []
        for example in examples:
            known = self._all.get(example.id)
            if known is None or known.foreign != example.foreign:
                self._changed(example.scope)
            for level in self._levels(example):
                level[example.id] = example
                level.move_to_end(example.id)
            touched.append(example)
        bounds = self._bounds
        gone: list[Example] = []
        for owner in dict.fromkeys((one.scope, one.capability) for one in touched):
            self._trim(self._owners.get(owner), bounds.per_capability, gone)
        for scope in dict.fromkeys(one.scope for one in touched):
            self._trim(self._scopes.get(scope), bounds.total, gone)
        self._trim(self._all, bounds.overall, gone)
        return gone

    def drop(self, examples: Iterable[Example]) -> None:
        """Forget `examples`; those that are not there are passed over."""
        for example in examples:
            if example.id not in self._all:
                continue
            for level in self._levels(example):
                del level[example.id]
            owner = (example.scope, example.capability)
            if not self._owners[owner]:
                del self._owners[owner]
            if not self._scopes[example.scope]:
                del self._scopes[example.scope]
            self._changed(example.scope)

    def matching(
        self, *, scope: str | None, capability: str | None, folded: str | None
    ) -> Sequence[Example]:
        """Return the examples that fit everything that is not None."""
        nothing: Mapping[str, Example] = {}
        level: Mapping[str, Example] = self._all
        if scope is not None and capability is not None:
            level = self._owners.get((scope, capability), nothing)
        elif scope is not None:
            level = self._scopes.get(scope, nothing)
        return [
            one
            for one in level.values()
            if capability in (None, one.capability) and folded in (None, one.folded)
        ]

    def of_scope(self, scope: str) -> ExampleSet:
        """Return the examples of `scope`; the same object as long as nothing has changed."""
        known = self._sets.get(scope)
        if known is None and (version := self._versions.get(scope)) is not None:
            rows = self.matching(scope=scope, capability=None, folded=None)
            known = self._sets[scope] = ExampleSet(
                version,
                tuple(row.text for row in rows),
                tuple(row.capability for row in rows),
                frozenset(place for place, row in enumerate(rows) if row.foreign),
            )
        return known or NO_EXAMPLES

    def _levels(self, example: Example) -> tuple[Level, Level, Level]:
        owner = (example.scope, example.capability)
        return (
            self._all,
            self._scopes.setdefault(example.scope, OrderedDict()),
            self._owners.setdefault(owner, OrderedDict()),
        )

    def _trim(self, level: Level | None, limit: int, gone: list[Example]) -> None:
        while level is not None and len(level) > limit:
            oldest = next(iter(level.values()))
            gone.append(oldest)
            self.drop([oldest])

    def _changed(self, scope: str) -> None:
        self._version += 1
        self._versions[scope] = self._version
        self._sets.pop(scope, None)

"""What a search needs of a scope's turns beside their texts, in memory."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hookgate.builtin_plugins.memory.domain import ASSISTANT
from hookgate.kit.modules import np

if TYPE_CHECKING:
    import numpy.typing as npt

Ints: TypeAlias = "npt.NDArray[np.int64]"
Bits: TypeAlias = "npt.NDArray[np.uint64]"
Floats: TypeAlias = "npt.NDArray[np.float32]"

NONE = -1
"""Stands where there is no turn before or after."""

SITTING_SECONDS = 3600
"""After a longer silence a session's next turn begins a new sitting."""

_COLUMNS = {
    **dict.fromkeys(("places", "at", "turns", "starts"), "int64"),
    **dict.fromkeys(("lengths", "signs", "speaker", "sitting", "before", "after"), "int32"),
}
"""What is known of each row, see `TurnIndex`."""

ROW_BYTES = sum(int(kind.removeprefix("int")) // 8 for kind in _COLUMNS.values())
"""What a row takes beside its words and its vector."""

SAYS_NOTHING = 2
"""An answer of the assistant with so many telling words at most says nothing ("Noted.", "Of course,
gladly!"): what stands before it and what comes behind it are neighbours."""

_MICROSECONDS = 1_000_000
_VECTOR_SCALE = 127.0
FEW_ROWS = 4
"""So many rows are posted word by word: NumPy's way of it costs as much for one row as for some."""


def to_bytes(vector: Floats) -> bytes:
    """Return a vector as it is kept: a signed byte for each number, the greatest one 127."""
    most = float(np.abs(vector).max()) or 1.0
    kept: bytes = np.rint(vector * (_VECTOR_SCALE / most)).astype(np.int8).tobytes()
    return kept


@dataclass(slots=True)
class _Column:
    """An array that grows at its end."""

    dtype: type | str
    width: int = 0
    used: int = 0
    room: Any = None

    def extend(self, rows: Any) -> None:
        need = self.used + len(rows)
        if self.room is None or need > len(self.room):
            shape = (max(64, need + need // 4), *((self.width,) if self.width else ()))
            room = np.zeros(shape, self.dtype)
            if self.room is not None:
                room[: self.used] = self.room[: self.used]
            self.room = room
        self.room[self.used : need] = rows
        self.used = need

    @property
    def rows(self) -> Any:
        if self.room is None:
            return np.zeros((0, self.width) if self.width else 0, self.dtype)
        return self.room[: self.used]


class Postings(NamedTuple):
    """Which rows hold which of some words: word by word, and for each in the order of the rows.

    Attributes:
        which: The place of each word among those that were asked for.
        rows: A row that holds it.
        counts: How often.
    """

    which: Ints
    rows: Ints
    counts: Floats


class RowVectors(NamedTuple):
    """Vectors of rows, of any length.

    Attributes:
        wide: The vectors.
        scales: What brings each to length 1.
    """

    wide: Floats
    scales: Floats

    def likeness(self, direction: Floats) -> Floats:
        """Return the cosine of each with `direction`, where it is above zero."""
        # Not as a product with a matrix, which would be shared out among threads.
        cosines: Floats = np.vecdot(self.wide, direction)
        cosines *= self.scales
        return np.maximum(cosines, 0, out=cosines)

    def units(self, places: Ints) -> Floats:
        """Return some of them, of length 1."""
        return self.wide[places] * self.scales[places, None]


@dataclass(slots=True)
class _Sitting:
    number: int
    at: int
    row: int


class TurnIndex:
    """The turns of one scope, row by row in the order in which they were kept.

    Attributes:
        lock: Is held by whoever uses the rest.
        version: The version of the scope that is known.
        current: As of which epoch this is all there is in the store; see `Changes`.
        no_facts: As of which epoch the scope has no facts and notes.
        fingerprint: The embedder whose vectors are here; "" where there is none.
        total: The number of words of all of them.
        starts: Where the words of each begin.
        places: The place of each row in the scope.
        at: When each was said, in microseconds since 1970.
        turns: The hash of the turn in which each was said.
        lengths: The number of words of each.
        signs: See `hookgate.builtin_plugins.memory.recall.words.Signs`.
        speakers: The names of those who spoke.
        speaker: Who spoke, as a place in `speakers`.
        sitting: Which sitting each belongs to: turns of a session without a long silence.
        sittings: How many there are.
        before: The row before each in its sitting, or `NONE`, which is the place behind the last.
        after: The row after each in its sitting, or `NONE`.
    """

    places: Ints
    at: Ints
    turns: Ints
    lengths: Ints
    signs: Ints
    speaker: Ints
    sitting: Ints
    before: Ints
    after: Ints
    starts: Ints

    def __init__(self) -> None:
        self.lock = Lock()
        self.current = self.no_facts = NONE
        self._clear("")

    def _clear(self, fingerprint: str) -> None:
        self.version = 0
        self.speakers: list[str] = []
        self.sittings = 0
        self.total = 0
        self.fingerprint = fingerprint
        self._columns = {name: _Column(dtype) for name, dtype in _COLUMNS.items()}
        self._columns["starts"].extend([0])
        self._terms = _Column(np.uint32)
        self._postings: dict[int, array[int]] = {}
        self._open: dict[str, _Sitting] = {}
        self._vectors: _Column | None = None
        self._bits: list[_Column] = []
        self._norms = _Column(np.float32)
        self._show()

    def __len__(self) -> int:
        return self._columns["places"].used

    # -- growing --------------------------------------------------------------------

    def clear(self, fingerprint: str) -> None:
        """Begin anew.

        Args:
            fingerprint: The embedder whose vectors count; "" where there is none.
        """
        self._clear(fingerprint)

    def take(self, rows: Sequence[Any]) -> None:
        """Take in rows as `changed_since` returns them.

        What is behind the last row that is known is new; of others the vector may be.
        """
        last = int(self.places[-1]) if len(self) else NONE
        new = [row for row in rows if row.place > last]
        if new:
            self._append(new)
        self._take_vectors(rows)

    def _extend(self, **rows: Any) -> None:
        for name, some in rows.items():
            self._columns[name].extend(some)

    def _show(self) -> None:
        for name, column in self._columns.items():
            room = column.room
            setattr(self, name, column.rows if room is None else room[: column.used])

    def _append(self, rows: Sequence[Any]) -> None:
        first = len(self)
        terms = [np.frombuffer(row.terms, "<u4") for row in rows]
        lengths = np.array([len(one) for one in terms], np.int64)
        self._extend(
            places=[row.place for row in rows],
            at=[row.at for row in rows],
            turns=[hash(row.turn) for row in rows],
            signs=[row.signs for row in rows],
            lengths=lengths,
            starts=self.starts[-1] + np.cumsum(lengths),
        )
        joined = np.concatenate(terms)
        self._terms.extend(joined)
        self.total += int(lengths.sum())
        if len(rows) <= FEW_ROWS:
            for at, words in enumerate(terms, first):
                self._post_row(words.tolist(), at)
        else:
            self._post(joined, np.repeat(np.arange(first, first + len(rows)), lengths))
        self._seat(rows, terms, first)

    def _post_row(self, words: Sequence[int], row: int) -> None:
        """Do for the words of one row what `_post` does for those of many."""
        counts: dict[int, int] = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        for word, count in counts.items():
            posted = self._postings.get(word)
            if posted is None:
                posted = self._postings[word] = array("I")
            posted.append((row & 0xFFFFFF) << 8 | min(count, 255))

    def _post(self, terms: npt.NDArray[np.uint32], rows: Ints) -> None:
        """Keep for each word in which rows it is, and how often: the row times 256 plus that."""
        if not len(terms):
            return
        pairs, counts = np.unique((terms.astype(np.uint64) << 32) | rows.astype(np.uint64),
                                  return_counts=True)  # fmt: skip
        words = (pairs >> 32).astype(np.uint32)
        kept = ((pairs & 0xFFFFFF) << 8 | np.minimum(counts, 255).astype(np.uint64)).astype("u4")
        starts = np.flatnonzero(np.concatenate([[True], words[1:] != words[:-1]]))
        for start, end, word in zip(
            starts.tolist(), [*starts[1:].tolist(), len(words)], words[starts].tolist(), strict=True
        ):
            self._postings.setdefault(word, array("I")).frombytes(kept[start:end].tobytes())

    def _seat(
        self, rows: Sequence[Any], terms: Sequence[npt.NDArray[np.uint32]], first: int
    ) -> None:
        """Say who spoke, in which sitting, and behind whom, but for what says nothing."""
        names = {name: at for at, name in enumerate(self.speakers)}
        speaker, sitting, before = [], [], []
        for at, row in enumerate(rows, first):
            speaker.append(names.setdefault(row.speaker, len(names)))
            says_nothing = row.speaker == ASSISTANT and len(terms[at - first]) <= SAYS_NOTHING
            open_ = self._open.get(row.session)
            if open_ is None or abs(row.at - open_.at) > SITTING_SECONDS * _MICROSECONDS:
                self._open[row.session] = _Sitting(self.sittings, row.at, at)
                sitting.append(self.sittings)
                before.append(NONE)
                self.sittings += 1
            else:
                sitting.append(open_.number)
                before.append(open_.row)
                open_.at = row.at
                if not says_nothing:
                    open_.row = at
        self.speakers = list(names)
        after = np.full(len(rows), NONE, np.int64)
        self._extend(speaker=speaker, sitting=sitting, before=before, after=after)
        behind = np.arange(first, first + len(rows))
        self._show()
        fronts = self.before[first:]
        # Of several behind one the last counts: those before it say nothing.
        self.after[fronts[fronts != NONE]] = behind[fronts != NONE]

    def _take_vectors(self, rows: Sequence[Any]) -> None:
        if not self.fingerprint:
            return
        with_one = [row for row in rows if row.vector and row.fingerprint == self.fingerprint]
        if self._vectors is None:
            if not with_one:
                return
            width = len(with_one[0].vector)
            self._vectors = _Column(np.int8, width)
            # Word by word: a look at one of all rows is a look at one array.
            self._bits = [_Column(np.uint64) for _ in range(-(-width // 64))]
        missing = len(self) - self._vectors.used
        if missing:
            self._vectors.extend(np.zeros((missing, self._vectors.width), np.int8))
            for word in self._bits:
                word.extend(np.zeros(missing, np.uint64))
            self._norms.extend(np.zeros(missing, np.float32))
        if with_one:
            at = np.searchsorted(self.places, [row.place for row in with_one])
            made = np.frombuffer(b"".join(row.vector for row in with_one), np.int8)
            made = made.reshape(len(with_one), -1)
            self._vectors.rows[at] = made
            for word, bits in zip(self._bits, bits_of(made).T, strict=True):
                word.rows[at] = bits
            wide = made.astype(np.float32)
            self._norms.rows[at] = np.sqrt(np.einsum("ij,ij->i", wide, wide))

    # -- reading ------------------------------------------------------------------------

    def of_turns(self, turns: Collection[str]) -> npt.NDArray[np.bool_]:
        """Return which rows were said in `turns`."""
        found = np.zeros(len(self), bool)
        for turn in turns:
            found |= self.turns == hash(turn)
        return found

    def answers(self, words: Collection[int], without: Collection[str], *, near: bool) -> bool:
        """Whether any row may answer a message.

        Args:
            words: The numbers of its words.
            without: The turns that are left out.
            near: Whether one may that holds none of its words.
        """
        if not near and self._postings.keys().isdisjoint(words):
            return False
        return not self.of_turns(without).all()

    def terms(self, row: int) -> npt.NDArray[np.uint32]:
        """Return the numbers of the words of a row, in their order."""
        found: npt.NDArray[np.uint32] = self._terms.rows[self.starts[row] : self.starts[row + 1]]
        return found

    def postings(self, words: Sequence[int]) -> Postings:
        """Return which rows hold which of some words."""
        kept = [self._postings.get(word, b"") for word in words]
        packed = np.frombuffer(b"".join(kept), np.uint32)
        which = np.arange(len(words)).repeat([len(one) for one in kept])
        return Postings(which, (packed >> 8).astype(np.int64), (packed & 0xFF).astype(np.float32))

    def terms_of(self, rows: Ints) -> tuple[npt.NDArray[np.uint32], Ints]:
        """Return the words of rows, one row behind the other, and the place in `rows` of each."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum()
        places = np.arange(ends[-1]) + (self.starts[rows] - ends + lengths).repeat(lengths)
        return self._terms.rows[places], np.arange(len(rows)).repeat(lengths)

    def held(self, word: int) -> int:
        """Return how many rows hold a word."""
        kept = self._postings.get(word)
        return 0 if kept is None else len(kept)

    @property
    def dimension(self) -> int:
        """The length of a vector; 0 where no row has one."""
        return 0 if self._vectors is None else self._vectors.width

    @property
    def read(self) -> npt.NDArray[np.bool_]:
        """Which rows have a vector."""
        found: npt.NDArray[np.bool_] = self._norms.rows > 0
        return found if self.dimension else np.zeros(len(self), bool)

    def vectors(self, rows: Ints | None) -> RowVectors:
        """Return the vectors of rows; of one without a vector zeros.

        Args:
            rows: The rows; None for all.
        """
        assert self._vectors is not None, "see dimension"
        kept = self._vectors.rows if rows is None else self._vectors.rows[rows]
        norms = self._norms.rows if rows is None else self._norms.rows[rows]
        return RowVectors(kept.astype(np.float32), 1 / np.maximum(norms, 1))

    def vector(self, row: int) -> Floats | None:
        """Return the vector of a row, of length 1; None where it has none."""
        if self._vectors is None or not self._norms.rows[row]:
            return None
        found: Floats = self._vectors.rows[row] / self._norms.rows[row]
        return found

    def nearest_by_sign(self, query: Floats, most: int) -> Ints:
        """Return `most` rows whose numbers have most signs in common with those of `query`.

        A look at a bit for each number takes a fiftieth of the time of a product, and what is
        nearest by cosine is among the first few in a hundred by signs.
        """
        # Made once: room that is asked for and given back again and again takes as long to get.
        apart, other = np.zeros(len(self), np.int16), np.empty(len(self), np.uint64)
        count = np.empty(len(self), np.uint8)
        for word, bits in zip(self._bits, bits_of(query[None, :])[0], strict=True):
            np.bitwise_xor(word.rows, bits, out=other)
            apart += np.bitwise_count(other, out=count)
        apart[self._norms.rows == 0] = np.iinfo(np.int16).max
        return np.argpartition(apart, most)[:most]

    @property
    def bytes(self) -> int:
        """About how much memory this takes."""
        # Of a vector a byte and a bit for each number, and its length.
        row = ROW_BYTES + (self.dimension * 9 // 8 + 4 if self.dimension else 0)
        # An array and its entry in a dictionary take about 200 bytes beside what they hold.
        return len(self) * row + 200 * len(self._postings) + 10 * self._terms.used


def bits_of(vectors: npt.NDArray[Any]) -> Bits:
    """Return the signs of the numbers of vectors, 64 in one."""
    packed = np.packbits(vectors > 0, axis=1)
    room = np.zeros((len(vectors), -(-packed.shape[1] // 8) * 8), np.uint8)
    room[:, : packed.shape[1]] = packed
    return room.view(np.uint64)


@dataclass(slots=True)
class Indexes:
    """The indexes of the scopes that were searched last, within a bound.

    Attributes:
        most_bytes: About how much memory they may take; the latest one is always kept.
    """

    most_bytes: int
    _kept: OrderedDict[str, TurnIndex] = field(default_factory=OrderedDict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _used: int = 0
    _lock: Lock = field(default_factory=Lock)

    def of(self, scope: str) -> TurnIndex:
        """Return the index of a scope, which may be empty still."""
        with self._lock:
            index = self._kept.get(scope)
            if index is None:
                index = self._kept[scope] = TurnIndex()
            self._kept.move_to_end(scope)
            return index

    def kept(self, scope: str) -> TurnIndex | None:
        """Return the index of a scope that was searched already; None where there is none."""
        with self._lock:
            return self._kept.get(scope)

    def trim(self, grown: Collection[str]) -> None:
        """Let go of the scopes that were searched longest ago, where there are too many.

        Args:
            grown: Those that may have changed since this was called last; no other is measured.
        """
        with self._lock:
            for scope in grown:
                if (index := self._kept.get(scope)) is not None:
                    size = index.bytes
                    self._used += size - self._sizes.get(scope, 0)
                    self._sizes[scope] = size
            while self._used > self.most_bytes and len(self._kept) > 1:
                scope, _ = self._kept.popitem(last=False)
                self._used -= self._sizes.pop(scope, 0)

    def doubt(self, scopes: Collection[str]) -> None:
        """Say that the rows of scopes have changed: they are looked at again."""
        with self._lock:
            for scope in scopes:
                if (index := self._kept.get(scope)) is not None:
                    index.current = index.no_facts = NONE

    @property
    def scopes(self) -> list[str]:
        """The scopes that are in memory, the one that was searched last at the end."""
        with self._lock:
            return list(self._kept)

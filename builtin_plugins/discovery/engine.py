"""The engine: an index for each version of the rows, kept up to date beside the turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from hookgate.builtin_plugins.discovery.building import Material
from hookgate.builtin_plugins.discovery.index import CANDIDATES, Query
from hookgate.builtin_plugins.discovery.relevance import Relevance, small_talk
from hookgate.builtin_plugins.discovery.results import Found
from hookgate.builtin_plugins.discovery.saved import Saved, SavedError
from hookgate.core.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hookgate.builtin_plugins.discovery.building import Draft
    from hookgate.builtin_plugins.discovery.index import Index, Ranking
    from hookgate.builtin_plugins.discovery.learned import Learned
    from hookgate.core.descriptors import Capabilities, Capability
    from hookgate.core.ports import Embedder

__all__ = ["Engine", "Finding", "Surroundings"]

INLINE_VECTORS = 4000
"""Up to so many rows a search takes less time than the way to a thread and back is worth."""

VERSIONS = 2
"""Indexes that are kept: a running turn may still search the version before the newest."""

QUERIES = 1024
"""Messages whose words and vectors are kept, the latest used."""

BATCH = 256
"""Texts that are embedded between two looks at whether it is still worth it."""

SAVE_SECONDS = 30.0
"""The least time between two writes of the index; the last one is at the end."""

RETRY_SECONDS = 60.0
"""How long after a failure of the embedder the vectors are tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the engine needs of the gateway.

    Attributes:
        embedder: Returns the embedder, or None where there is none.
        degrade: Says that a part does not work as it should, and why.
        recover: Says that it does again.
        path: Where the index is kept; None keeps it in memory alone.
        clock: Seconds that never go backwards.
    """

    embedder: Callable[[], Embedder | None] = lambda: None
    degrade: Callable[[str, str], None] = lambda _part, _why: None
    recover: Callable[[str], None] = lambda _part: None
    path: Path | None = None
    clock: Callable[[], float] = perf_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a search found.

    Attributes:
        found: What fits, best first.
        version: The version of the rows that was searched.
        dense: Whether vectors took part.
        milliseconds: Time by step.
    """

    found: tuple[Found, ...]
    version: int
    dense: bool
    milliseconds: Mapping[str, float]


class Engine:
    """Searches the capabilities of a snapshot. Cards are not among them: they select themselves.

    Words are indexed before the first search of a version; vectors are made beside the turns,
    and take part once they are there. A reader sees one whole index, never a half one.
    """

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        self._around = surroundings or Surroundings()
        lines = small_talk()
        self._material = Material(background=lines)
        self._relevance = Relevance(lines)
        self._indexes: OrderedDict[int, Index] = OrderedDict()
        self._drafts: OrderedDict[int, Draft] = OrderedDict()
        self._queries: OrderedDict[str, Query] = OrderedDict()
        self._building = asyncio.Lock()
        self._filling: asyncio.Task[None] | None = None
        self._restored = False
        self._dirty = False
        self._written: tuple[bytes, ...] = ()
        self._saved_at = -SAVE_SECONDS
        self._failed_at = -RETRY_SECONDS
        self.problem = ""
        """Why vectors do not take part, or ""."""

    # -- searching -----------------------------------------------------------

    async def find(
        self,
        capabilities: Capabilities,
        text: str,
        *,
        shown: Callable[[Capability], bool] = lambda _: True,
        limit: int,
        floor: float = 0.0,
        learned: Learned | None = None,
    ) -> Finding:
        """Return what fits `text` best.

        Args:
            capabilities: All that the snapshot holds.
            text: A message, or what is looked for, in anybody's words.
            shown: Whether a capability may be found at all.
            limit: So many at most.
            floor: The least relevance, 0 to 1.
            learned: Earlier queries, and what they were answered with.
        """
        begun = perf_counter()
        index = await self.index_of(capabilities)
        indexed = perf_counter()
        query = await self._query(text, index)
        embedded = perf_counter()
        boost = None if learned is None else learned.of(query, index)

        def search() -> tuple[Found, ...]:
            count = max(CANDIDATES, 2 * limit)
            while True:
                ranking = index.search(query, count=count, learned=boost)
                found = self._found(index, query, ranking, shown, limit, floor)
                if len(found) >= limit or ranking.complete or self._is_done(index, ranking, floor):
                    return found
                # What may be shown lies behind what may not: look further.
                count *= 8
                if count >= len(index):
                    count = len(index)

        if len(index) <= INLINE_VECTORS:
            found = search()
        else:
            found = await asyncio.to_thread(search)
        times = {
            "index": (indexed - begun) * 1000,
            "embed": (embedded - indexed) * 1000,
            "search": (perf_counter() - embedded) * 1000,
        }
        dense = index.dense is not None and query.matrix is not None
        return Finding(found=found, version=index.version, dense=dense, milliseconds=times)

    def _found(
        self,
        index: Index,
        query: Query,
        ranking: Ranking,
        shown: Callable[[Capability], bool],
        limit: int,
        floor: float,
    ) -> tuple[Found, ...]:
        relevance = self._relevance.of(ranking, query, index.background)

        def fitting() -> Iterator[Found]:
            for at, place in enumerate(ranking.places.tolist()):
                if relevance[at] < floor or relevance[at] <= 0:
                    return
                row = index.rows[place]
                if shown(row):
                    yield Found(
                        row=row,
                        relevance=float(relevance[at]),
                        dense=float(ranking.cosines[at]),
                        lexical=float(ranking.shares[at]),
                        words=index.lexical.held(query.parts[0].words, place),
                    )

        return tuple(islice(fitting(), limit))

    @staticmethod
    def _is_done(index: Index, ranking: Ranking, floor: float) -> bool:
        """Whether the candidates reach below the floor, so that no further row can pass it."""
        if len(ranking.places) >= len(index):
            return True
        return not len(ranking.scores) or float(ranking.scores[-1]) < floor

    async def _query(self, text: str, index: Index) -> Query:
        known = self._queries.get(text)
        if known is None:
            known = Query.of(text)
        else:
            self._queries.move_to_end(text)
        if known.matrix is None and index.dense is not None:
            known = await self._with_vectors(text, known)
        self._queries[text] = known
        if len(self._queries) > QUERIES:
            self._queries.popitem(last=False)
        return known

    async def _with_vectors(self, text: str, query: Query) -> Query:
        embedder = self._around.embedder()
        if embedder is None:
            return query
        try:
            vectors = [await embedder.embed_query(text)]
            if len(query.parts) > 1:
                vectors += list(await embedder.embed([part.text for part in query.parts[1:]]))
        except EmbeddingError as error:
            self._fail(str(error))
            return query
        return query.with_vectors(vectors)

    # -- the index of a version ----------------------------------------------

    async def index_of(self, capabilities: Capabilities) -> Index:
        """Return the index of a snapshot's version; its words are indexed where they are not."""
        index = self._indexes.get(capabilities.version)
        if index is not None:
            return index
        async with self._building:
            index = self._indexes.get(capabilities.version)
            if index is not None:
                return index
            await self._restore()
            rows = [row for row in capabilities if row.kind != "card"]
            draft, made = await asyncio.to_thread(self._make, capabilities.version, rows)
            self._keep(draft, made)
        self._fill_later()
        return made

    async def ready(self, capabilities: Capabilities) -> Index:
        """Return the index of a version once its vectors are there, or cannot be had."""
        await self.index_of(capabilities)
        while (task := self._filling) is not None and not task.done():
            await asyncio.shield(task)
        return await self.index_of(capabilities)

    def _make(self, version: int, rows: Sequence[Capability]) -> tuple[Draft, Index]:
        draft = self._material.draft(version, rows)
        return draft, self._material.index(draft)

    def _keep(self, draft: Draft, index: Index) -> None:
        self._indexes[draft.version] = index
        self._drafts[draft.version] = draft
        while len(self._indexes) > VERSIONS:
            oldest = min(self._indexes)
            del self._indexes[oldest], self._drafts[oldest]

    # -- vectors -------------------------------------------------------------

    def _fill_later(self) -> None:
        if self._filling is not None and not self._filling.done():
            return
        newest = self._drafts[max(self._drafts)]
        if not newest.missing or self._around.embedder() is None:
            return
        if self._around.clock() - self._failed_at < RETRY_SECONDS:
            return
        task = asyncio.get_running_loop().create_task(self._fill(), name="discovery.vectors")
        self._filling = task

    async def _fill(self) -> None:
        """Make the vectors that the newest version lacks, until none is missing."""
        while True:
            embedder = self._around.embedder()
            version = max(self._drafts)
            draft = self._drafts[version]
            if embedder is None:
                return
            try:
                whole = await self._embed(embedder, draft)
            except EmbeddingError as error:
                self._fail(str(error))
                return
            if whole:
                async with self._building:
                    if version in self._drafts:
                        index = await asyncio.to_thread(self._material.index, draft)
                        self._keep(draft, index)
                        self._drafts[version] = replace(draft, missing={})
                if self.problem:
                    self.problem = ""
                    self._around.recover("discovery: vectors")
                await self.save()
                if max(self._drafts) == version:
                    return

    async def _embed(self, embedder: Embedder, draft: Draft) -> bool:
        """Embed what is missing; return False where a newer version has come meanwhile."""
        missing = list(draft.missing.items())
        for first in range(0, len(missing), BATCH):
            if max(self._drafts) != draft.version:
                return False
            batch = missing[first : first + BATCH]
            vectors = await embedder.embed([text for _, text in batch])
            keys = [key for key, _ in batch]
            self._dirty = True
            async with self._building:
                await asyncio.to_thread(
                    self._material.take, embedder.fingerprint, keys, np.asarray(vectors)
                )
        return True

    def _fail(self, why: str) -> None:
        self._failed_at = self._around.clock()
        if why != self.problem:
            self.problem = why
            self._around.degrade("discovery: vectors", f"{why}; search goes by words alone")

    # -- kept on disk --------------------------------------------------------

    async def _restore(self) -> None:
        path, embedder = self._around.path, self._around.embedder()
        if self._restored or path is None:
            return
        self._restored = True
        try:
            saved = await asyncio.to_thread(Saved.read, path)
        except SavedError as error:
            self._around.degrade("discovery: index", f"{error}; it is made anew")
            return
        if saved is not None:
            fingerprint = "" if embedder is None else embedder.fingerprint
            self._material.restore(saved, fingerprint)
            self._written = saved.table.digests

    async def save(self, *, now: bool = False) -> None:
        """Write the index, where it has changed and the last time is long enough ago."""
        path, clock = self._around.path, self._around.clock
        table = self._material.table
        if path is None or table is None:
            return
        if not self._dirty and table.digests == self._written:
            return
        if not now and clock() - self._saved_at < SAVE_SECONDS:
            return
        async with self._building:
            saved = self._material.saved()
            if saved is None:
                return
            self._dirty = False
            self._written = saved.table.digests
            self._saved_at = clock()
            try:
                await asyncio.to_thread(saved.write, path)
            except OSError as error:
                self._around.degrade("discovery: index", f"{path} cannot be written: {error}")
            else:
                self._around.recover("discovery: index")

    async def close(self) -> None:
        """Stop what runs beside the turns, and write the index a last time."""
        if self._filling is not None and not self._filling.done():
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)
        await self.save(now=True)

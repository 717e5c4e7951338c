"""The engine: an index for each version of the rows, kept up to date beside the turns."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from hookgate import Capabilities, Capability, Embedder, EmbeddingError, embed_parts
from hookgate.builtin_plugins.discovery.index import (
    CANDIDATES,
    Index,
    IndexQuery,
    Ranking,
    SearchResult,
    Surroundings,
    is_loaded,
    words_alone,
)
from hookgate.builtin_plugins.discovery.index.build import (
    NOBODY,
    IndexDraft,
    Material,
    Saved,
    SavedError,
)
from hookgate.builtin_plugins.discovery.index.relevance import Relevance, no_tag, passed, tag_of
from hookgate.builtin_plugins.discovery.index.vectors import VectorsError
from hookgate.builtin_plugins.discovery.learn.lessons import GivenExamples
from hookgate.kit.modules import np
from hookgate.kit.vectors import small_talk
from hookgate.tasks import finish, stop

if TYPE_CHECKING:
    import numpy.typing as npt

    from hookgate.builtin_plugins.discovery.learn.lessons import Boost, Lessons
    from hookgate.builtin_plugins.discovery.show.entries import FoundCapability

    Floats = npt.NDArray[np.float32]

PART = "discovery: vectors"

INLINE_VECTORS = 4000
"""Up to so many rows a search takes less time than the way to a thread and back is worth."""

VERSIONS = 2
"""Indexes that are kept: a running turn may still search the version before the newest."""

RANKINGS = 256
"""Rankings that are kept, since a turn, its searches and its retries ask the same."""

QUERY_CHARS = 20_000
"""So much of a message is searched for at most: its beginning and its end."""

QUERIES = 1024
"""Messages whose words and vectors are kept, the latest used."""

BATCH = 256
"""Texts that are embedded between two looks at whether it is still worth it."""

SAVE_SECONDS = 30.0
"""The least time between two writes of the index; the last one is at the end."""

LOAD_SECONDS = 0.5
"""So long a turn waits for a model that is not loaded yet: MiniLM takes a quarter of a second."""

RETRY_SECONDS = 60.0
"""How long after a failure of the embedder the vectors are tried again."""


class SearchEngine:
    """Searches the capabilities of a snapshot. Cards are not among them: they select themselves.

    Words are indexed before the first search of a version; vectors are made beside the turns,
    and take part once they are there. A reader sees one whole index, never a half one.
    """

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        self._around = surroundings or Surroundings()
        lines = small_talk()
        self._material = Material(background=lines, elsewhere=self._around.elsewhere)
        self._relevance = Relevance(lines)
        self._given = GivenExamples(self._relevance.asks)
        self._indexes: OrderedDict[int, Index] = OrderedDict()
        self._drafts: OrderedDict[int, IndexDraft] = OrderedDict()
        # By text, with the fingerprint of the embedder that the vectors are from.
        self._queries: OrderedDict[str, tuple[str, IndexQuery]] = OrderedDict()
        self._rankings: dict[tuple[Index, IndexQuery, int], tuple[Ranking, Floats]] = {}
        self._building = asyncio.Lock()
        self._builds: set[asyncio.Task[Index]] = set()
        self._filling: asyncio.Task[None] | None = None
        self._restored = False
        self._dirty = False
        self._written: tuple[bytes, ...] = ()
        self._saved_at = -SAVE_SECONDS
        self._failed_at = -RETRY_SECONDS
        self._told = ""
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
        learned: Lessons | None = None,
        patient: bool = True,
        by_tag: bool = True,
    ) -> SearchResult:
        """Return what fits `text` best.

        Args:
            capabilities: All that the snapshot holds.
            text: A message, or what is looked for, in anybody's words.
            shown: Whether a capability may be found at all.
            limit: So many at most.
            floor: The least relevance, 0 to 1.
            learned: Earlier queries, and what they were answered with.
            patient: Whether the search waits for a model that is not loaded yet, however long
                it takes; else it waits for `LOAD_SECONDS`, and then goes by words alone.
            by_tag: Whether what has a tag that stands in the message is found below the floor.
        """
        begun = perf_counter()
        index = await self.index_of(capabilities)
        indexed = perf_counter()
        query = await self._query(text, index, patient=patient)
        embedded = perf_counter()
        boost = None if learned is None else learned.of(query, index)
        boost = self._given.joined(boost, query, index)

        def search() -> tuple[FoundCapability, ...]:
            count = max(CANDIDATES, 2 * limit)
            while True:
                ranking, relevance = self._ranked(index, query, count, boost)
                evident = tag_of(self._relevance, query) if by_tag else no_tag
                found = passed(
                    index, query, ranking, relevance, shown, limit=limit, floor=floor, tag=evident
                )
                done = ranking.complete or len(ranking.places) >= len(index)
                # Below the last candidate there is nothing that could pass the floor.
                last = float(relevance[-1]) if len(relevance) else 0.0
                if len(found) >= limit or done or last < floor or last <= 0:
                    return found
                # What may be shown lies behind what may not: look further.
                count = min(8 * count, len(index))

        if index.blocking or len(index) > INLINE_VECTORS:
            try:
                found = await asyncio.to_thread(search)
            except VectorsError as error:
                self._lose(error)
                index, query = index.without_vectors(), query.without_vectors()
                found = await asyncio.to_thread(search)
        else:
            found = search()
        times = {
            "index": (indexed - begun) * 1000,
            "embed": (embedded - indexed) * 1000,
            "search": (perf_counter() - embedded) * 1000,
        }
        dense = index.dense is not None and query.matrix is not None
        return SearchResult(found=found, version=index.version, dense=dense, milliseconds=times)

    def _ranked(
        self, index: Index, query: IndexQuery, count: int, boost: Boost
    ) -> tuple[Ranking, Floats]:
        """Return the rows that fit and their relevance; a query is ranked once."""
        key = (index, query, count)
        known = self._rankings.get(key) if boost is None else None
        if known is None:
            ranking = index.search(query, count=count, learned=boost)
            known = ranking, self._relevance.judge(index, query, ranking)
            if boost is None:
                self._rankings[key] = known
                while len(self._rankings) > RANKINGS:
                    # Another thread may have taken the same one.
                    with suppress(KeyError, RuntimeError):
                        del self._rankings[next(iter(self._rankings))]
        return known

    async def _query(self, text: str, index: Index, *, patient: bool) -> IndexQuery:
        """Return `text` as it is searched for in `index`."""
        if len(text) > QUERY_CHARS:
            text = f"{text[: QUERY_CHARS // 2]}\n{text[-QUERY_CHARS // 2 :]}"
        made_with, query = self._queries.get(text) or ("", IndexQuery.of(text))
        if index.dense is not None:
            wanted, embedder = index.dense.fingerprint, self._around.embedder()
            if made_with != wanted:
                # Vectors of two embedders do not compare: words alone are left.
                query = query.without_vectors()
            asked = query.matrix is None and embedder and embedder.fingerprint == wanted
            if embedder and asked:
                limit = None if patient or is_loaded(embedder) else LOAD_SECONDS
                query = await self._with_vectors(text, query, embedder, limit)
            made_with = wanted
        self._queries[text] = (made_with, query)
        self._queries.move_to_end(text)
        if len(self._queries) > QUERIES:
            self._queries.popitem(last=False)
        return query

    async def _with_vectors(
        self, text: str, query: IndexQuery, embedder: Embedder, limit: float | None
    ) -> IndexQuery:
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                vectors = await embed_parts(embedder, text, [part.span for part in query.parts[1:]])
        except Exception as error:  # noqa: BLE001 - it may be anybody's; words alone find much
            if timer.expired():
                # It goes on being loaded, for the messages that come after.
                return query
            self._fail(error)
            return query
        newest = self._drafts[max(self._drafts)]
        if not newest.missing and newest.fingerprint != NOBODY:
            self._recover()
        return query.with_vectors(vectors)

    # -- the index of a version ----------------------------------------------

    async def index_of(self, capabilities: Capabilities) -> Index:
        """Return the index of a snapshot's version; its words are indexed where they are not."""
        index = self._indexes.get(capabilities.version)
        if index is None:
            # Whoever asked may be cancelled; the work on its thread goes on, and nobody else
            # may begin before it is done.
            task = asyncio.create_task(self._build(capabilities), name="discovery.index")
            self._builds.add(task)
            task.add_done_callback(self._builds.discard)
            index = await asyncio.shield(task)
        elif len(self._indexes) > 1:
            self._indexes.move_to_end(capabilities.version)
        embedder = self._around.embedder()
        self._fill_later(embedder)
        self._tell(embedder)
        return index

    def _tell(self, embedder: Embedder | None) -> None:
        """Say in `status` why searches go by words alone, or slowly; or that they do not."""
        newest = self._indexes[max(self._indexes)]
        # What has failed is said as what does not work.
        what = "" if self.problem else words_alone(embedder, newest) or self._material.slow
        if what != self._told:
            self._told = what
            self._around.standing(PART).note(what)

    async def _build(self, capabilities: Capabilities) -> Index:
        async with self._building:
            known = self._indexes.get(capabilities.version)
            if known is not None:
                return known
            await self._restore()
            rows = [row for row in capabilities if row.kind != "card"]
            version = capabilities.version
            try:
                made = await asyncio.to_thread(self._make, version, rows, self._fingerprint())
                self._keep(*made)
            except VectorsError as error:
                made = await asyncio.to_thread(self._make, version, rows, NOBODY)
                self._keep(*made)
                self._lose(error)
            return made[1]

    def _fingerprint(self) -> str:
        embedder = self._around.embedder()
        return "" if embedder is None else embedder.fingerprint

    async def ready(self, capabilities: Capabilities) -> Index:
        """Return the index of a version once its vectors are there, or cannot be had."""
        await self.index_of(capabilities)
        while (task := self._filling) is not None and not task.done():
            await asyncio.shield(task)
        return await self.index_of(capabilities)

    @property
    def filling(self) -> bool:
        """Whether vectors are being made now."""
        return self._filling is not None and not self._filling.done()

    def _make(
        self, version: int, rows: Sequence[Capability], fingerprint: str
    ) -> tuple[IndexDraft, Index]:
        self._relevance.prepare()
        draft = self._material.draft(version, rows, fingerprint)
        return draft, self._material.index(draft)

    def _keep(self, draft: IndexDraft, index: Index) -> None:
        self._indexes[draft.version] = index
        self._drafts[draft.version] = draft
        self._indexes.move_to_end(draft.version)
        newest = max(self._indexes)
        while len(self._indexes) > VERSIONS:
            # An older one stays while a running turn searches it.
            unused = next(version for version in self._indexes if version != newest)
            del self._indexes[unused], self._drafts[unused]
        # Rankings would hold the indexes that they are of.
        self._rankings.clear()

    # -- vectors -------------------------------------------------------------

    def _fill_later(self, embedder: Embedder | None) -> None:
        if self._filling is not None and not self._filling.done():
            return
        newest = self._drafts[max(self._drafts)]
        if embedder is None or not (newest.missing or newest.fingerprint != embedder.fingerprint):
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
                if draft.fingerprint != embedder.fingerprint:
                    draft = await self._redrafted(draft, embedder.fingerprint)
                async with self._building:
                    draft = await finish(asyncio.to_thread(self._material.look_up, draft))
                whole = await self._embed(embedder, draft)
                if whole:
                    await self._renew(draft)
            except VectorsError as error:
                self._lose(error)
                return
            except Exception as error:  # noqa: BLE001 - it may be anybody's; words alone find much
                self._fail(error)
                return
            if whole:
                self._recover()
                self._tell(self._around.embedder())
                await self.save()
                if max(self._drafts) == version:
                    return

    async def _renew(self, draft: IndexDraft) -> None:
        """Make the index of a version anew, once its vectors are there."""
        async with self._building:
            if draft.version in self._drafts:
                index = await finish(asyncio.to_thread(self._material.index, draft))
                self._keep(replace(draft, missing={}), index)

    async def _redrafted(self, draft: IndexDraft, fingerprint: str) -> IndexDraft:
        """Return a version's draft for another embedder."""
        async with self._building:
            if draft.fingerprint == NOBODY:
                self._material.let_go()
            made = await finish(
                asyncio.to_thread(self._material.draft, draft.version, draft.rows, fingerprint)
            )
            if draft.version in self._drafts:
                self._drafts[draft.version] = made
            return made

    async def _embed(self, embedder: Embedder, draft: IndexDraft) -> bool:
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
                await finish(
                    asyncio.to_thread(
                        self._material.take, draft.fingerprint, keys, np.asarray(vectors)
                    )
                )
        return True

    def _recover(self) -> None:
        if self.problem:
            self.problem = ""
            self._around.standing(PART).good()

    def _lose(self, error: VectorsError) -> None:
        """Go on by words alone, until the vectors of the newest version are looked up anew."""
        self._fail(error)
        for version, index in list(self._indexes.items()):
            if index.blocking:
                self._indexes[version] = index.without_vectors()
        newest = max(self._drafts)
        self._drafts[newest] = replace(self._drafts[newest], fingerprint=NOBODY)
        self._rankings.clear()

    def _fail(self, error: Exception) -> None:
        known = isinstance(error, EmbeddingError | VectorsError)
        why = str(error) if known else f"the embedder failed: {type(error).__name__}: {error}"
        self._failed_at = self._around.clock()
        if why != self.problem:
            self.problem = why
            self._around.standing(PART).bad(f"{why}; search goes by words alone")
        self._tell(self._around.embedder())

    # -- kept on disk --------------------------------------------------------

    async def _restore(self) -> None:
        path = self._around.path
        if self._restored or path is None:
            return
        self._restored = True
        try:
            saved = await asyncio.to_thread(Saved.read, path)
        except SavedError as error:
            self._around.standing("discovery: index").bad(f"{error}; it is made anew")
            return
        if saved is not None:
            self._material.restore(saved)
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
                await finish(asyncio.to_thread(saved.write, path))
            except OSError as error:
                self._dirty = True
                self._around.standing("discovery: index").bad(f"{path} cannot be written: {error}")
            else:
                self._around.standing("discovery: index").good()

    async def close(self) -> None:
        """Stop what runs beside the turns, and write the index a last time."""
        await asyncio.gather(*self._builds, return_exceptions=True)
        await stop(self._filling)
        await self.save(now=True)

"""Questions in this process: kept until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hookgate.core.domain.turn import Principal
from hookgate.core.hooks.tasks import finish
from hookgate.ports import Question, Settled, Store

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(slots=True, eq=False)
class _Waiting:
    question: Question
    settled: asyncio.Future[Settled]
    # Whether somebody's answer is being kept: nobody else can answer meanwhile.
    taken: bool = False
    free: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def open(self) -> bool:
        # Whoever awaited it with a limit has cancelled it: nobody would hear an answer.
        return not self.taken and not self.settled.done()


class InProcessQuestions:
    """Questions that end with the process; see `hookgate.core.domain.ports.Questions`.

    Args:
        store: Returns the store in which answers write what goes with them; None without one.
    """

    def __init__(self, store: Callable[[], Store | None] = lambda: None) -> None:
        self._store = store
        self._waiting: dict[str, _Waiting] = {}

    async def ask(self, question: Question) -> asyncio.Future[Settled]:
        """Let `question` wait; the future says what becomes of it."""
        settled: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = _Waiting(question, settled)
        settled.add_done_callback(lambda _: self._waiting.pop(question.id, None))
        return settled

    async def find(self, question_id: str) -> Question | None:
        """Return a question that waits."""
        found = self._waiting.get(question_id)
        return found.question if found is not None and found.open else None

    async def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions at addresses that `principal` may claim, the oldest first."""
        return [
            one.question
            for one in self._waiting.values()
            if one.open and principal.may_claim(one.question.address)
        ]

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        by: str,
        also: Callable[[Connection | None], None] | None = None,
    ) -> bool:
        """Answer a question; False where it does not wait any more."""
        found = self._waiting.get(question_id)
        if found is None or not found.open:
            return False
        found.question.check(value)
        found.taken = True

        async def settle() -> None:
            try:
                await self._write(also)
            except BaseException:
                found.taken = False
                raise
            finally:
                found.free.set()
                found.free = asyncio.Event()
            self._settle(found, Settled(state="answered", value=value, by=by))

        # Whole: what was handed to the store is written, and then its asker has to hear of it.
        await finish(settle())
        return True

    async def _write(self, also: Callable[[Connection | None], None] | None) -> None:
        store = self._store()
        if also is None:
            return
        if store is None:
            also(None)
        else:
            await store.write(also)

    async def end(
        self, question_id: str, state: Literal["expired", "withdrawn"], why: str
    ) -> Settled:
        """End a question, if nobody answers it first; return what became of it."""
        found = self._waiting.get(question_id)
        while found is not None and found.taken and not found.settled.done():
            await found.free.wait()
        if found is None or found.settled.cancelled():
            self._waiting.pop(question_id, None)
            return Settled(state=state, why=why)
        if not found.settled.done():
            self._settle(found, Settled(state=state, why=why))
        return found.settled.result()

    async def expire(self) -> Sequence[Question]:
        """There is nothing to end: no question is here whose asker has stopped."""
        return ()

    def _settle(self, found: _Waiting, settled: Settled) -> None:
        self._waiting.pop(found.question.id, None)
        if not found.settled.done():
            found.settled.set_result(settled)

"""Requests that are sent again: one joins the turn that runs, or gets its answer once more.

A client says so itself by an `Idempotency-Key`, whose answer is kept for a day. The vendors' SDKs
send none, and yet send again what was not answered: by `x-stainless-retry-count` such a request is
known in the modes in which tools of the gateway run, so that none of them runs twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiohttp import web

from hookgate import EventStream, Host, Principal, StoreError, WireError, new_id
from hookgate.builtin_plugins.compat.answers import (
    ClientWire,
    WireFrame,
    behind_white_space,
    id_headers,
    interrupted,
)
from hookgate.builtin_plugins.compat.fields import bad
from hookgate.builtin_plugins.compat.kept import KeptRun, Shelf, beside, packed, unpacked
from hookgate.builtin_plugins.compat.settings import REUSED, CompatSettings
from hookgate.wire import dumps

if TYPE_CHECKING:
    from hookgate.builtin_plugins.compat.delivery import AnswerDelivery
    from hookgate.builtin_plugins.compat.kept.tables import KeptAnswer
    from hookgate.builtin_plugins.compat.modes import Meant
    from hookgate.kit.records import Records

_T = TypeVar("_T")

HEADER = "idempotency-key"
RETRIES = "x-stainless-retry-count"
KEY = re.compile(r"[\x21-\x7e]{1,255}")
DAY = 86_400
RETRY_SECONDS = 600
LOST = 30
"""Seconds without a sign of life after which a request counts as lost that another gateway runs."""
PULSE = 10.0
LOOK = 0.25
"""Seconds between two looks at whether another gateway has the answer."""
BEGUN = "begun"
"""What an answer's place has of a response in the background: its id."""
ALONE = 15.0
"""Seconds that a turn runs on without a reader: longer than an SDK waits to send it again."""
LARGEST = 8 * 1024 * 1024
"""Bytes of an answer that is kept, compressed."""

Begin: TypeAlias = "Callable[[], Awaitable[tuple[AnswerDelivery, Mapping[str, str]]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A request that may have been sent before.

    Attributes:
        principal: The id of whose it is.
        key: Its name, within those of the principal.
        digest: Of its path and its body.
        again: Whether an answer of before will do.
        seconds: How long its answer is kept.
        lasting: Whether its turn runs to its end when its client has gone.
    """

    principal: str
    key: str
    digest: str
    again: bool
    seconds: int
    lasting: bool


def named(
    request: web.Request,
    principal: Principal,
    body: Mapping[str, Any],
    found: Meant,
    *,
    background: bool,
) -> Named | None:
    """Return what a request that may come twice is known by; None for all others.

    Raises:
        WireError: Its key cannot be one.
    """
    key, count = request.headers.get(HEADER), request.headers.get(RETRIES, "")
    if key is not None and not KEY.fullmatch(key):
        raise bad("Idempotency-Key", "expected 1 to 255 printable characters without a space")
    if key is None and (found.mode == "guard" or not count.isdecimal()):
        return None
    way = f"{request.path}{' in the background' * background}"
    digest = sha256(way.encode() + b"\n" + dumps(body)).hexdigest()
    if key is not None:
        return Named(
            principal=principal.id,
            key=f"key:{key}",
            digest=digest,
            again=True,
            seconds=DAY,
            lasting=True,
        )
    return Named(
        principal=principal.id,
        key=f"retry:{digest}",
        digest=digest,
        again=int(count) > 0,
        seconds=RETRY_SECONDS,
        lasting=False,
    )


class KeptAnswers:
    """The answers that may be asked for twice.

    Args:
        host: The host.
        shelf: Has the rows.
        settings: Returns the plugin's settings.
    """

    def __init__(self, host: Host, shelf: Shelf, settings: Callable[[], CompatSettings]) -> None:
        self._host = host
        self._shelf = shelf
        self._settings = settings
        self._runs: dict[tuple[str, str], KeptRun] = {}

    async def answer(
        self, request: web.Request, wire: ClientWire, one: Named, begin: Begin, *, stream: bool
    ) -> web.StreamResponse:
        """Answer a request: by the turn that runs, by what was answered, or by a new turn.

        Raises:
            WireError: The key is that of another request.
            Exception: What the turn ended with.
        """
        run = await self._found(one)
        replayed = run is not None
        if run is None:
            run = await self._begun(one, begin)
        run.readers.append(request)
        try:
            headers = {**run.headers, **id_headers(request)}
            if replayed:
                headers["idempotent-replayed"] = "true"
            if stream:
                return await _streamed(request, wire, run, headers)

            async def answer() -> web.Response:
                return wire.whole([frame async for frame in run.follow()], headers)

            return await behind_white_space(
                request, headers, answer(), self._settings().white_space_seconds, self._host
            )
        finally:
            run.readers.remove(request)

    async def once(self, one: Named, begin: Callable[[], Awaitable[str]]) -> tuple[str, bool]:
        """Return the name of what a request has begun, and whether that was one before it.

        Raises:
            WireError: The key is that of another request.
            Exception: It could not be begun.
        """
        run = await self._found(one)
        if run is not None:
            async for _ in run.follow():
                pass
            return run.headers[BEGUN], True
        run, name = await self._start(one, begin)
        run.headers[BEGUN] = name
        await self._keep(one, run)
        self._end(one, run)
        return run.headers[BEGUN], False

    # -- what was asked before ---------------------------------------------------------------

    async def _found(self, one: Named) -> KeptRun | None:
        """Return the run to join; None where this request is to begin one, which it has claimed."""
        place = one.principal, one.key
        while True:
            if one.again and (run := self._runs.get(place)) is not None:
                return self._same(one, run)
            row = await self._claimed(one)
            if row is None:
                return None
            if row.digest != one.digest:
                raise _reused(one)
            if not row.runs_until:
                kept = await unpacked(row.body)
                return KeptRun(one.digest, kept["headers"], kept["frames"], over=True)
            # Another gateway runs it.
            await asyncio.sleep(LOOK)

    def _same(self, one: Named, run: KeptRun) -> KeptRun:
        if run.digest != one.digest:
            raise _reused(one)
        return run

    async def _claimed(self, one: Named) -> KeptAnswer | None:
        """Return the row of a request that was sent before; None where it is this one's now."""
        tables, store = await self._shelf.open()
        now, rows = self._shelf.now(), tables.KeptAnswer.records(store)
        mine = tables.KeptAnswer(
            principal=one.principal,
            key=one.key,
            digest=one.digest,
            claim=new_id("claim"),
            expires=now + one.seconds,
            runs_until=now + LOST,
            body=b"",
        )
        if not one.again:
            await rows.save([mine])
            return None
        # What is over its time, or was lost with its gateway, is there no longer.
        here = rows.c.principal == one.principal, rows.c.key == one.key
        await rows.remove(*here, (rows.c.expires < now) | rows.c.runs_until.between(1, now - 1))
        (row,) = await rows.add([mine])
        return None if row.claim == mine.claim else row

    # -- a turn of its own -------------------------------------------------------------------

    async def _start(self, one: Named, begin: Callable[[], Awaitable[_T]]) -> tuple[KeptRun, _T]:
        """Begin a request's run; those that come again meanwhile wait for it."""
        run = self._runs[one.principal, one.key] = KeptRun(one.digest)
        try:
            return run, await begin()
        except BaseException as error:
            run.failure = error if isinstance(error, Exception) else interrupted()
            await self._let_go(one, run)
            raise

    async def _begun(self, one: Named, begin: Begin) -> KeptRun:
        run, (delivery, headers) = await self._start(one, begin)
        run.headers = dict(headers)
        self._host.spawn(self._produce(one, run, delivery), name="compat: an answer to be joined")
        if not one.lasting:
            self._host.spawn(self._alone(run, delivery), name="compat: see to an answer's readers")
        return run

    async def _produce(self, one: Named, run: KeptRun, delivery: AnswerDelivery) -> None:
        try:
            async with beside(self._pulse(one)):
                async for frames in delivery.pieces():
                    run.frames += frames
                    run.tell()
                run.headers = delivery.with_model(run.headers)
                await self._keep(one, run)
        except Exception as error:  # noqa: BLE001 - it is told to whoever reads the answer
            if run.frames and delivery.streamed:
                run.frames += await delivery.failed(error)
                run.torn = True
            else:
                run.failure = error
        except BaseException:
            run.failure = interrupted()
            raise
        finally:
            if run.failure is not None or run.torn:
                await self._let_go(one, run)
            else:
                self._end(one, run)

    async def _alone(self, run: KeptRun, delivery: AnswerDelivery) -> None:
        """End a turn that nobody reads any longer, once nobody will ask for it again."""
        clock = self._host.clock
        seen = clock.monotonic()
        while not run.over:
            await asyncio.sleep(LOOK)
            if run.is_read:
                seen = clock.monotonic()
            elif clock.monotonic() - seen > ALONE:
                delivery.leave()
                return

    async def _pulse(self, one: Named) -> None:
        while True:
            await asyncio.sleep(PULSE)
            with suppress(StoreError):
                await self._change(one, runs_until=self._shelf.now() + LOST)

    async def _keep(self, one: Named, run: KeptRun) -> None:
        """Keep an answer before anybody hears that it is whole."""
        body = await packed({"headers": run.headers, "frames": run.frames})
        try:
            if len(body) <= LARGEST:
                await self._change(one, runs_until=0, body=body)
            else:
                await self._forget(one)
        except StoreError as error:
            self._host.log.warning("an answer could not be kept", key=one.key, error=str(error))

    async def _let_go(self, one: Named, run: KeptRun) -> None:
        """Let a request that has failed be sent again."""
        with suppress(StoreError):
            await self._forget(one)
        self._end(one, run)

    def _end(self, one: Named, run: KeptRun) -> None:
        run.over = True
        if self._runs.get((one.principal, one.key)) is run:
            del self._runs[one.principal, one.key]
        run.tell()

    async def _change(self, one: Named, **values: Any) -> None:
        rows, mine = await self._rows_of(one)
        await rows.change(*mine, **values)

    async def _forget(self, one: Named) -> None:
        rows, mine = await self._rows_of(one)
        await rows.remove(*mine)
        await rows.remove(rows.c.expires < self._shelf.now())

    async def _rows_of(self, one: Named) -> tuple[Records[KeptAnswer], Any]:
        """Return the rows, and what is true of that of a request, while it is the same one."""
        tables, store = await self._shelf.open()
        rows = tables.KeptAnswer.records(store)
        here = rows.c.principal == one.principal, rows.c.key == one.key
        return rows, (*here, rows.c.digest == one.digest)


async def _streamed(
    request: web.Request, wire: ClientWire, run: KeptRun, headers: Mapping[str, str]
) -> web.StreamResponse:
    frames = aiter(run.follow())
    # What fails before anything was written has a status of its own.
    first: Sequence[WireFrame] = [frame async for frame in _first(frames)]
    async with EventStream(request, headers=headers) as stream:
        for frame in first:
            await _send(stream, wire, frame)
        async for frame in frames:
            await _send(stream, wire, frame)
        if wire.last and not run.torn:
            await stream.send(wire.last)
    return stream.response


async def _first(frames: AsyncIterator[WireFrame]) -> AsyncIterator[WireFrame]:
    with suppress(StopAsyncIteration):
        yield await anext(frames)


async def _send(stream: EventStream, wire: ClientWire, frame: WireFrame) -> None:
    await stream.send(dumps(frame), event=wire.name_of(frame))


def _reused(one: Named) -> Exception:
    return WireError.named(
        REUSED,
        f"the Idempotency-Key {one.key.partition(':')[2]!r} is that of another request",
        action="send the same body again, or another key",
    )

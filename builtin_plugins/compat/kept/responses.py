"""Responses that a client asks for again, goes on from, or lets run while it does something else.

What is kept is what the client has sent and been shown: a call that was denied and a text that was
masked are in it as little as they were in the answer. Nothing of it is asked of an upstream, where
they would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from hookgate import (
    EventStream,
    Host,
    Principal,
    ProviderError,
    StoreError,
    TurnHandle,
    principal_of,
)
from hookgate.builtin_plugins.compat.answers import WireFrame, id_headers
from hookgate.builtin_plugins.compat.fields import Fields, bad
from hookgate.builtin_plugins.compat.kept import KeptRun, Shelf, beside, packed, unpacked
from hookgate.clients import wire_error
from hookgate.wire import dumps

if TYPE_CHECKING:
    from hookgate.builtin_plugins.compat.delivery import AnswerDelivery
    from hookgate.builtin_plugins.compat.kept.tables import KeptResponse
    from hookgate.builtin_plugins.compat.settings import CompatSettings

DAY = 86_400
PULSE = 1.0
"""Seconds between two looks at whether somebody wants a response to end that runs."""
LOST = 30
"""Seconds without a sign of life after which one that runs counts as lost."""
MOST_KEPT = 10_000
"""Responses that are kept of one principal; then the oldest one goes."""
TIDY_EACH = 100
"""So many are kept between two looks at what can go."""
LONGEST_ID = 200
MOST_ITEMS = 100
RUNS = ("queued", "in_progress")
BY_CLIENT = "cancelled by its client"
CANCEL_SECONDS = 10.0
"""Seconds that a response has to end once somebody wants that."""
PREVIOUS = "previous_response_id"
STREAMS = {"true": True, "1": True, "false": False, "0": False}
LONGEST_NUMBER = 10
ENDS = ("response.completed", "response.incomplete", "response.failed")


@dataclass(slots=True)
class ResponseKeeper:
    """Keeps one response.

    Attributes:
        kept: Where.
        principal: Whose it is.
        input: The items that it was asked with, those that it has gone on from included.
        background: Whether it runs on without its client.
        told: What the response repeats of its request, and the upstream was not sent.
        stored: Whether it is kept at all.
        frames: What was streamed of it, where it runs in the background; None for no stream.
        upstream: The ids of what it was made of, by the provider that keeps them.
    """

    kept: KeptResponses
    principal: Principal
    input: list[Any]
    background: bool
    stored: bool
    told: dict[str, Any] = field(default_factory=dict)
    frames: list[WireFrame] | None = None
    upstream: Mapping[str, Sequence[str]] = field(default_factory=dict)

    async def end(self, response: Mapping[str, Any]) -> None:
        """Keep a response that is over."""
        if self.stored:
            await self.kept.put(self, response)


@dataclass(frozen=True, slots=True)
class RunningResponse:
    """A response that runs in the background here.

    Attributes:
        handle: Its turn.
        run: What was streamed of it so far.
        head: What was known of it at its beginning.
    """

    handle: TurnHandle
    run: KeptRun
    head: WireFrame


class KeptResponses:
    """Responses, each found by its principal alone.

    Args:
        host: The host.
        shelf: Has the rows.
        settings: The plugin's settings.
    """

    def __init__(self, host: Host, shelf: Shelf, settings: CompatSettings) -> None:
        self._host = host
        self._shelf = shelf
        self.settings = settings
        self._running: dict[tuple[str, str], RunningResponse] = {}
        self._since_tidy = 0

    # -- what a request says of it -----------------------------------------------------------

    async def taken(
        self, principal: Principal, body: dict[str, Any]
    ) -> tuple[dict[str, Any], ResponseKeeper | None]:
        """Return the body as a model is to read it, and what keeps the response.

        Raises:
            WireError: It goes on from what is not kept, or cannot run in the background.
        """
        fields = Fields(body)
        stored = fields.flag("store") is not False and self.settings.keep_days > 0
        background, previous = fields.flag("background") or False, fields.text(PREVIOUS)
        if background:
            self._check_background(fields, stored=stored)
        if not (stored or background or previous) or (previous and "conversation" in fields):
            return body, None  # The last is refused where the request is read.
        given = body.get("input")
        items = list(given) if isinstance(given, list) else [given] if given else []
        told: dict[str, Any] = {}
        if background or previous:
            own = ("background", PREVIOUS)
            told = {name: body[name] for name in own if body.get(name) is not None}
            body = {name: value for name, value in body.items() if name not in own}
        if previous:
            items = [*await self._before(principal, previous), *map(_item, items)]
            body["input"] = items
        return body, ResponseKeeper(self, principal, items, background, stored, told)

    def _check_background(self, fields: Fields, *, stored: bool) -> None:
        if fields.flag("store") is False:
            fields.wrong("store", "true: what runs in the background is asked for later")
        if not stored:
            raise bad(
                "background",
                "nothing is kept here that could be asked for later",
                action="set `keep_days` of [plugin.compat], or leave it out",
            )

    async def _before(self, principal: Principal, previous: str) -> list[Any]:
        """Return what a response was asked with, and what it has answered."""
        row = await self._find(principal.id, previous)
        if row is None:
            raise bad(
                PREVIOUS,
                f"there is no response {previous[:LONGEST_ID]!r} of yours here",
                action="send the whole conversation in `input`, or begin anew: what was asked with "
                "`store: false`, or is older than `keep_days`, is not kept",
            )
        kept = await unpacked(row.body)
        if kept["response"].get("status") in RUNS:
            raise bad(PREVIOUS, "that response is not over yet", action="wait for its end")
        return [*map(_item, kept["input"]), *kept["response"].get("output", ())]

    # -- keeping ---------------------------------------------------------------------------------

    async def put(
        self, keeper: ResponseKeeper, response: Mapping[str, Any], *, runs: int = 0
    ) -> None:
        """Keep a response; one that cannot be is told to the operator, and not to the client."""
        now = self._shelf.now()
        name = str(response.get("id", ""))[:LONGEST_ID]
        try:
            tables, store = await self._shelf.open()
            row = tables.KeptResponse(
                principal=keeper.principal.id,
                id=name,
                made=now,
                expires=now + int(self.settings.keep_days * DAY),
                runs_until=runs,
                cancelled=False,
                body=await self._body(keeper, response),
            )
            await tables.KeptResponse.records(store).save([row])
            self._since_tidy += 1
            if self._since_tidy >= TIDY_EACH:
                self._since_tidy = 0
                await self._tidy(keeper.principal, now)
        except StoreError as error:
            self._host.log.warning("a response could not be kept", id=name, error=str(error))

    async def _change(self, key: tuple[str, str], **values: Any) -> None:
        """Change the row of a response that runs; one that is gone, or over, stays as it is.

        Raises:
            StoreError: Nothing was written.
        """
        tables, store = await self._shelf.open()
        rows = tables.KeptResponse.records(store)
        mine = rows.c.principal == key[0], rows.c.id == key[1], rows.c.runs_until > 0
        await rows.change(*mine, **values)

    async def _body(self, keeper: ResponseKeeper, response: Mapping[str, Any]) -> bytes:
        told: dict[str, Any] = {} if keeper.frames is None else {"frames": keeper.frames}
        if keeper.upstream:
            told["upstream"] = dict(keeper.upstream)
        return await packed({"input": keeper.input, "response": response, **told})

    async def _tidy(self, principal: Principal, now: int) -> None:
        """Let go of what is over its time, and of the oldest where one has too many."""
        tables, store = await self._shelf.open()
        rows = tables.KeptResponse.records(store)
        await rows.remove(rows.c.expires < now)
        mine = rows.c.principal == principal.id
        newest = await rows.page(mine, by=(rows.c.made, rows.c.id), limit=MOST_KEPT)
        if len(newest) == MOST_KEPT:
            await rows.remove(mine, rows.c.made < newest[-1].made)

    async def _find(self, principal: str, name: str) -> KeptResponse | None:
        """Return a row; None where the principal has none of this id."""
        if len(name) > LONGEST_ID:
            return None
        tables, store = await self._shelf.open()
        row: KeptResponse | None = await tables.KeptResponse.records(store).get(principal, name)
        return None if row is None or row.expires < self._shelf.now() else row

    # -- in the background -----------------------------------------------------------------------

    async def begun(
        self, keeper: ResponseKeeper, delivery: AnswerDelivery, handle: TurnHandle
    ) -> str:
        """Let a response run on; return its id, by which it can be asked for later."""
        head = delivery.head()
        if delivery.streamed:
            keeper.frames = delivery.queued()
        runs = self._shelf.now() + LOST
        await self.put(keeper, {**head, "status": "in_progress"}, runs=runs)
        key = keeper.principal.id, str(head["id"])
        run = KeptRun("", frames=keeper.frames or [])
        self._running[key] = RunningResponse(handle, run, head)
        self._host.spawn(self._run(keeper, delivery, key), name=f"compat: {head['id']}")
        return key[1]

    async def _run(
        self, keeper: ResponseKeeper, delivery: AnswerDelivery, key: tuple[str, str]
    ) -> None:
        running = self._running[key]
        run = running.run

        def hear(frames: list[WireFrame]) -> None:
            if keeper.frames is not None:
                run.frames += frames
                run.tell()

        try:
            async with beside(self._pulse(key, running.handle)):
                response = await delivery.behind(hear)
                keeper.upstream = delivery.upstream()
                if running.handle.reason:
                    response = {**response, "status": "cancelled", "error": None}
                await self._change(key, runs_until=0, body=await self._body(keeper, response))
        except StoreError as error:
            self._host.log.warning("a response could not be kept", id=key[1], error=str(error))
        finally:
            self._running.pop(key, None)
            run.over = True
            run.tell()

    async def _pulse(self, key: tuple[str, str], handle: TurnHandle) -> None:
        """Say that it runs, and hear where somebody wants it to end, at whichever gateway."""
        beats = 0
        while True:
            await asyncio.sleep(PULSE)
            beats += 1
            with suppress(StoreError):
                row = await self._find(key[0], key[1])
                if row is None or row.cancelled:
                    # Who has deleted it wants none of it, either.
                    handle.cancel(BY_CLIENT)
                elif beats % (LOST // 3) == 0:
                    await self._change(key, runs_until=self._shelf.now() + LOST)

    # -- the routes ------------------------------------------------------------------------------

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Serve ``GET /v1/responses/ID``."""
        streams = STREAMS.get(request.query.get("stream", "false"))
        if streams is None:
            raise bad("stream", "expected true or false")
        if not streams:
            return _json(request, (await self._shown(request))["response"])
        after = request.query.get("starting_after")
        if after is not None and not (after.isdecimal() and len(after) < LONGEST_NUMBER):
            raise bad("starting_after", f"found {after[:20]!r}, expected the number of an event")
        row = await self._row(request)
        key, number = (row.principal, row.id), -1 if after is None else int(after)
        return await self.streamed(request, key, id_headers(request), after=number)

    async def shown(
        self, key: tuple[str, str], headers: Mapping[str, str], *, begun: bool
    ) -> web.Response:
        """Return a response that runs in the background; as queued, where it was begun just now."""
        running = self._running.get(key)
        if begun and running is not None:
            response = {**running.head, "status": "queued"}
        else:
            response = (await self._of(await self._named(key)))["response"]
        return web.Response(body=dumps(response), content_type="application/json", headers=headers)

    async def streamed(
        self,
        request: web.Request,
        key: tuple[str, str],
        headers: Mapping[str, str],
        *,
        after: int = -1,
    ) -> web.StreamResponse:
        """Send the events of a response in the background, those behind a number."""
        running = self._running.get(key)
        kept = await self._of(await self._named(key)) if running is None else {}
        if "frames" not in kept and (running is None or not running.run.frames):
            raise bad(
                "stream",
                f"{key[1]} was not begun as a stream: it comes whole",
                action="leave it out, or begin with `background: true` and `stream: true`",
            )
        frames = self._elsewhere(key) if running is None else running.run.follow()
        async with EventStream(request, headers=headers) as stream:
            async for frame in frames:
                if frame["sequence_number"] > after:
                    await stream.send(dumps(frame), event=frame["type"])
        return stream.response

    async def _elsewhere(self, key: tuple[str, str]) -> AsyncIterator[WireFrame]:
        """Yield the events of a response that runs at another gateway, or is over: then all."""
        while True:
            kept = await self._of(await self._named(key))
            response = kept["response"]
            if response.get("status") not in RUNS:
                break
            await asyncio.sleep(PULSE)
        frames = kept["frames"]
        for frame in frames:
            yield frame
        if frames[-1]["type"] not in ENDS:
            # Its gateway has stopped, and nobody has told its end.
            number = frames[-1]["sequence_number"] + 1
            yield {"type": "response.failed", "sequence_number": number, "response": response}

    async def forget(self, request: web.Request) -> web.Response:
        """Serve ``DELETE /v1/responses/ID``."""
        row = await self._row(request)
        await self._forget_there(row)
        tables, store = await self._shelf.open()
        rows = tables.KeptResponse.records(store)
        await rows.remove(rows.c.principal == row.principal, rows.c.id == row.id)
        return _json(request, {"id": row.id, "object": "response", "deleted": True})

    async def _forget_there(self, row: KeptResponse) -> None:
        """Have the upstream forget what a response was made of, where it keeps that.

        An upstream may let its clients choose ids: one that is another's as well stays.

        Raises:
            WireError: It has not done so: then the response is still here.
        """
        kept = await unpacked(row.body)
        tables, store = await self._shelf.open()
        rows = tables.KeptResponse.records(store)
        for name, answers in kept.get("upstream", {}).items():
            forget = getattr(self._host.providers.get(name), "forget", None)
            if forget is None:
                continue
            try:
                for answer in answers:
                    others = (rows.c.id == answer, rows.c.principal != row.principal)
                    if not await rows.page(*others, by=(rows.c.made,), limit=1):
                        await forget(answer)
            except ProviderError as error:
                raise wire_error(
                    "provider_failed",
                    f"{name} has not forgotten it, so it is kept here as well: {error}",
                    action="try again later",
                ) from error

    async def items(self, request: web.Request) -> web.Response:
        """Serve ``GET /v1/responses/ID/input_items``, page by page, the newest first."""
        kept = await self._shown(request)
        name = kept["response"]["id"]
        named = [
            {"id": f"{name}_in_{number}", **item}
            for number, item in enumerate(map(_item, kept["input"]))
        ]
        if request.query.get("order", "desc") != "asc":
            named.reverse()
        asked = request.query.get("limit", "20")
        if not asked.isdecimal() or not 1 <= int(asked) <= MOST_ITEMS:
            raise bad("limit", f"found {asked[:20]!r}, expected 1 to {MOST_ITEMS}")
        after = request.query.get("after")
        if after is not None:
            places = [place for place, item in enumerate(named) if item["id"] == after]
            if not places:
                raise bad("after", f"found {after[:LONGEST_ID]!r}, expected the id of an item")
            named = named[places[0] + 1 :]
        page = named[: int(asked)]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        more = len(named) > len(page)
        listed = {"object": "list", "data": page, "first_id": None, "last_id": None}
        return _json(request, {**listed, **ends, "has_more": more})

    async def cancel(self, request: web.Request) -> web.Response:
        """Serve ``POST /v1/responses/ID/cancel``: of what runs in the background."""
        row = await self._row(request)
        kept = await self._of(row)
        if not kept["response"].get("background"):
            raise bad("", f"{row.id} does not run in the background: it ends with its request")
        key, clock = (row.principal, row.id), self._host.clock
        end = clock.monotonic() + CANCEL_SECONDS
        await self._change(key, cancelled=True)
        if (running := self._running.get(key)) is not None:
            running.handle.cancel(BY_CLIENT)
        while kept["response"].get("status") in RUNS and clock.monotonic() < end:
            await asyncio.sleep(0.05)
            row = await self._row(request)
            kept = await self._of(row)
        return _json(request, kept["response"])

    async def _row(self, request: web.Request) -> KeptResponse:
        return await self._named((principal_of(request).id, request.match_info["response"]))

    async def _named(self, key: tuple[str, str]) -> KeptResponse:
        name = key[1]
        row = await self._find(*key)
        if row is None:
            raise wire_error(
                "not_found",
                f"there is no response {name[:LONGEST_ID]!r} of yours here",
                action="what was asked with `store: false`, or is older than `keep_days`, is not "
                "kept",
            )
        return row

    async def _shown(self, request: web.Request) -> dict[str, Any]:
        return await self._of(await self._row(request))

    async def _of(self, row: KeptResponse) -> dict[str, Any]:
        """Return what a row holds; of a response whose gateway is gone, that it has failed."""
        kept: dict[str, Any] = await unpacked(row.body)
        response = kept["response"]
        if response.get("status") in RUNS and row.runs_until < self._shelf.now():
            gone = {"code": "server_error", "message": "The gateway that ran it has stopped."}
            kept["response"] = {**response, "status": "failed", "error": gone}
        return kept


def _item(item: Any) -> Any:
    """Return an item of an input; a text stands for a message of the user."""
    if not isinstance(item, str):
        return item
    content = [{"type": "input_text", "text": item}]
    return {"type": "message", "role": "user", "content": content}


def _json(request: web.Request, body: object) -> web.Response:
    headers = id_headers(request)
    return web.Response(body=dumps(body), content_type="application/json", headers=headers)

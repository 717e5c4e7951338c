"""People who ask through a proxy by messages, streams and sockets, and what came of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import aiohttp
from tests.support.fleet import LIMIT, UPSTREAM, counted

RETRYABLE = (502, 503, 504)
"""What a proxy says of a gateway that is gone, and a gateway that stops."""


PAUSE_SECONDS = 0.05
RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Failed:
    """One request that failed.

    Attributes:
        peer: Who asked.
        began: When, by the event loop's clock.
        at: The gateway that had it, as the proxy tells; "" where that is not known.
        what: The status, or the error of the connection.
        said: What came with the status.
    """

    peer: str
    began: float
    at: str
    what: Any
    said: str = ""

    @property
    def retryable(self) -> bool:
        """Whether a client may send it again."""
        return self.what in RETRYABLE or isinstance(self.what, aiohttp.ClientError | OSError)


class StatusError(Exception):
    """An answer with another status than 200."""


@dataclass(frozen=True)
class Open:
    """A question that waits."""

    id: str
    digest: str
    peer: str
    at: str


class Crowd:
    """So many people, of each kind a part, who ask without a pause.

    Attributes:
        failed: What failed.
        answered: How many answers each kind has had.
        kept: What each person was told has been taken down.
        at: The gateway at which each person's request is, as the proxy tells.
        open: The questions that wait.
        told: How many sockets were told that their gateway stops.
        longest: The longest that each kind has waited for an answer.
    """

    def __init__(self, url: str, headers: dict[str, str], number: int = 20) -> None:
        self.url = url
        self.headers = headers
        self.failed: list[Failed] = []
        self.answered = dict.fromkeys(("message", "stream", "socket", "question"), 0)
        self.longest = dict.fromkeys(self.answered, 0.0)
        self.kept: dict[str, list[str]] = defaultdict(list)
        self.at: dict[str, str] = {}
        self.open: dict[str, Open] = {}
        self.seen: set[str] = set()
        self.told = 0
        self.over = False
        kinds = tuple(self.answered)
        self.people = {f"p{n}": kinds[n % len(kinds)] for n in range(number)}
        self._held = False

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[aiohttp.ClientSession]:
        limit = aiohttp.ClientTimeout(total=LIMIT)
        async with aiohttp.ClientSession(
            self.url,
            headers=self.headers,
            timeout=limit,
            connector=aiohttp.TCPConnector(limit=0),
        ) as self._http:
            tasks = [
                asyncio.create_task(self._keep(kind, peer)) for peer, kind in self.people.items()
            ]
            answering = asyncio.create_task(self._answer_all())
            try:
                yield self._http
            finally:
                self.over, self._held = True, False
                await asyncio.gather(*tasks)
                # The last question is asked after the end was told.
                answering.cancel()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds."""
        async with asyncio.timeout(LIMIT):
            while not condition():  # noqa: ASYNC110 - others are asked
                await asyncio.sleep(0.02)

    async def more(self) -> None:
        """Wait until everybody has been answered once more."""
        before = {peer: len(self.kept[peer]) for peer in self.people}
        await self.until(lambda: all(len(self.kept[p]) > n for p, n in before.items()))

    # -- questions ---------------------------------------------------------------

    def hold(self) -> None:
        """Answer no question by itself any more."""
        self._held = True

    def release(self) -> None:
        """Answer each question a moment after it is asked."""
        self._held = False

    async def answer(self, question: Open) -> tuple[int, Any]:
        """Allow a question by the proxy, whichever gateway that asks."""
        self.open.pop(question.id, None)
        body = {"id": question.id, "digest": question.digest, "decision": "allow-once"}
        async with self._http.post("/v1/approvals/resolve", json=body) as answer:
            return answer.status, await answer.json()

    async def hold_one_at(self, place: str) -> Open:
        """Return a question that waits at one gateway, with all others that wait."""
        self.hold()
        asking = [peer for peer, kind in self.people.items() if kind == "question"]
        async with asyncio.timeout(LIMIT):
            while True:
                await self.until(lambda: len(self.open) == len(asking))
                for question in self.open.values():
                    if question.at == place:
                        return question
                await self._allow(next(iter(self.open.values())))

    async def _allow(self, question: Open) -> None:
        began = asyncio.get_running_loop().time()
        try:
            status, _ = await self.answer(question)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.failed.append(Failed("answerer", began, "", error))
        else:
            if status != 200:
                self.failed.append(Failed("answerer", began, "", status))

    async def _answer_all(self) -> None:
        while True:
            for question in tuple(self.open.values()):
                if not self._held:
                    await self._allow(question)
            await asyncio.sleep(0.1)

    # -- asking --------------------------------------------------------------------

    async def _keep(self, kind: str, peer: str) -> None:
        ask = getattr(self, f"_{kind}")
        numbers = count()
        loop = asyncio.get_running_loop()
        while not self.over:
            self.at[peer], began = "", loop.time()
            failed = len(self.failed)
            try:
                await ask(peer, numbers)
            except StatusError as error:
                self.failed.append(Failed(peer, began, self.at[peer], *error.args))
            except (aiohttp.ClientError, OSError, TimeoutError, AssertionError) as error:
                self.failed.append(Failed(peer, began, self.at[peer], error))
            self.open = {id: one for id, one in self.open.items() if one.peer != peer}
            # Whoever has failed waits a moment, as clients do.
            await asyncio.sleep(PAUSE_SECONDS if len(self.failed) == failed else RETRY_SECONDS)

    def _done(self, peer: str, said: str, began: float) -> None:
        kind = self.people[peer]
        self.kept[peer].append(said)
        self.answered[kind] += 1
        self.longest[kind] = max(self.longest[kind], time.monotonic() - began)
        self.seen.add(self.at[peer])

    @asynccontextmanager
    async def _post(
        self, peer: str, content: str, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        body = {"content": content, "peer": peer}
        async with self._http.post("/v1/turns", json=body, headers=headers) as answer:
            self.at[peer] = place(answer)
            if answer.status != 200:
                raise StatusError(answer.status, await answer.text())
            yield answer

    async def _message(self, peer: str, numbers: count[int]) -> None:
        said, began = f"count 2 for {peer}-{next(numbers)}", time.monotonic()
        async with self._post(peer, said) as answer:
            whole = await answer.json()
        assert (whole["ending"], whole["text"]) == ("done", counted(2)), whole
        self._done(peer, said, began)

    async def _events(self, peer: str, content: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        async with self._post(peer, content, Accept="text/event-stream") as answer:
            name = ""
            async for line in answer.content:
                field, _, value = line.decode().rstrip().partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)
        if name != "done":
            # Some proxies end a stream as well as their gateway would have.
            raise ConnectionResetError("the stream ended without `done`")

    async def _stream(self, peer: str, numbers: count[int]) -> None:
        # One of them is longer than a gateway goes on before it listens no more.
        length = 65 if peer == "p1" else 20
        said, began, last = f"count {length} for {peer}-{next(numbers)}", time.monotonic(), {}
        async for name, last in self._events(peer, said):
            assert name != "error", last
        assert (last.get("ending"), last.get("text")) == ("done", counted(length)), last
        self._done(peer, said, began)

    async def _question(self, peer: str, numbers: count[int]) -> None:
        said, began, last = f"ask 1 for {peer}-{next(numbers)}", time.monotonic(), {}
        async for name, last in self._events(peer, said):
            if name == "approval" and last["state"] == "pending":
                self.open[last["id"]] = Open(last["id"], last["digest"], peer, self.at[peer])
            if name == "tool_result":
                assert last["status"] == "done", last
        assert last.get("ending") == "done", last
        assert last["text"].startswith("the clock says 20"), last
        self._done(peer, said, began)

    async def _socket(self, peer: str, numbers: count[int]) -> None:
        """Talk over one socket until the gateway says that it stops; then come to another one."""
        stopping = False
        async with self._http.ws_connect("/ws") as raw:
            self.at[peer] = place(raw._response)
            while not (stopping or self.over):
                number, began = next(numbers), time.monotonic()
                said = f"count 5 for {peer}-{number}"
                params = {"content": said, "peer": peer}
                asked = {"jsonrpc": "2.0", "id": number, "method": "chat.send", "params": params}
                # What is sent to a socket that closes has not begun; what it told is read yet.
                with suppress(ConnectionResetError):
                    await raw.send_json(asked)
                while True:
                    message = await raw.receive(timeout=LIMIT)
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        if stopping:
                            break  # It was told, and comes to another one.
                        raise ConnectionResetError(f"closed without a word: {message}")
                    frame = json.loads(message.data)
                    if frame.get("method") == "stopping":
                        stopping = True
                        self.told += 1
                    if "error" in frame:
                        # It has not begun, and is sent again elsewhere.
                        assert stopping, frame
                        assert frame["error"]["data"]["code"] == "stopping", frame
                        break
                    if frame.get("method") == "done":
                        whole = frame["params"]
                        assert (whole["ending"], whole["text"]) == ("done", counted(5)), whole
                        self._done(peer, said, began)
                        break
                await asyncio.sleep(0.05)

    # -- what was kept -----------------------------------------------------------------

    async def lost(self) -> list[tuple[str, str]]:
        """Return who was answered what is not in any session."""
        async with aiohttp.ClientSession(self.url, headers=self.headers) as http:

            async def get(path: str, **query: str) -> Any:
                async with http.get(path, params=query) as answer:
                    assert answer.status == 200, await answer.text()
                    return await answer.json()

            there: set[str] = set()
            for row in (await get("/v1/sessions"))["sessions"]:
                messages, after = [], ""
                while True:
                    page = await get("/v1/sessions/export", session=row["session"], after=after)
                    messages += page["messages"]
                    if not (after := page["next"]):
                        break
                there |= _answered_of(messages)
        return [(peer, said) for peer in self.kept for said in self.kept[peer] if said not in there]


def _answered_of(messages: list[dict[str, Any]]) -> set[str]:
    """Return the messages of people behind which the model has a word."""
    found, said = set(), ""
    for message in messages:
        text = "".join(part.get("text", "") for part in message["parts"])
        if message["role"] == "user" and text:
            said = text
        elif message["role"] == "assistant" and text:
            found.add(said)
    return found


def place(answer: aiohttp.ClientResponse) -> str:
    """Return the gateway that a proxy has asked last."""
    return answer.headers.get(UPSTREAM, "").rpartition(", ")[2]

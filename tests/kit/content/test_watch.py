from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hookgate.kit.content import watch as watching
from hookgate.kit.content.watch import changes


def write(place: Path, text: str = "text") -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def texts(places: tuple[Path, ...]) -> list[str]:
    found = sorted(path for place in places for path in place.rglob("*") if path.is_file())
    return [f"{path.name}: {path.read_text(encoding='utf-8')}" for path in found]


class Seen:
    """Looks at every change, and never in between."""

    def __init__(self) -> None:
        self.last: list[str] | None = None
        self._news = asyncio.Condition()

    async def look(self, paths: tuple[Path, ...]) -> None:
        found = await asyncio.to_thread(texts, paths)
        async with self._news:
            self.last = found
            self._news.notify_all()

    async def until(self, wanted: list[str]) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self.last == wanted)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_MS", 100)


@asynccontextmanager
async def watched(*paths: Path) -> AsyncIterator[Seen]:
    seen, stop = Seen(), asyncio.Event()

    async def follow() -> None:
        async for _ in changes(lambda: list(paths), debounce_ms=50, stop=stop):
            await seen.look(paths)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        stop.set()
        await task


async def test_where_the_system_cannot_watch_a_place_that_goes_is_missed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more watches")

    monkeypatch.setattr(watching, "watch", refuse)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.2)
    place = tmp_path / "here"
    write(place / "a")
    async with watched(place) as seen:
        await seen.until(["a: text"])
        monkeypatch.setattr(watching, "POLL_SECONDS", 3600.0)
        shutil.rmtree(place)
        await seen.until([])


async def test_a_new_a_changed_and_a_deleted_file_are_seen(tmp_path: Path) -> None:
    write(tmp_path / "a")
    async with watched(tmp_path) as seen:
        await seen.until(["a: text"])
        write(tmp_path / "group" / "b")
        await seen.until(["a: text", "b: text"])
        write(tmp_path / "group" / "b", "mine")
        await seen.until(["a: text", "b: mine"])
        (tmp_path / "a").unlink()
        await seen.until(["b: mine"])


async def test_a_folder_that_appears_and_one_that_is_replaced_are_seen(tmp_path: Path) -> None:
    place = tmp_path / "later"
    async with watched(place) as seen:
        write(place / "a")
        await seen.until(["a: text"])
        write(tmp_path / "fresh" / "b")
        place.rename(tmp_path / "old")
        (tmp_path / "fresh").rename(place)
        await seen.until(["b: text"])
        write(place / "c")
        await seen.until(["b: text", "c: text"])
        shutil.rmtree(place)
        await seen.until([])


async def test_watching_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def follow() -> None:
        async for _ in changes(lambda: [tmp_path], debounce_ms=50, stop=asyncio.Event()):
            began.set()

    task = asyncio.create_task(follow())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_where_nothing_can_be_watched_it_is_looked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watching, "watch", refuse)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    async with watched(tmp_path) as seen:
        write(tmp_path / "a")
        await seen.until(["a: text"])


async def test_what_is_asked_of_folders_is_asked_on_a_thread(tmp_path: Path) -> None:
    threads: set[int] = set()
    stop = asyncio.Event()

    def places() -> list[Path]:
        threads.add(threading.get_ident())
        return [tmp_path]

    async for _ in changes(places, debounce_ms=10, stop=stop):
        stop.set()
    assert threads
    assert threading.get_ident() not in threads

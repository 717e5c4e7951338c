from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.turns import KnownSecrets

from hookgate.kit import json_lines
from hookgate.kit.json_lines import JsonLines, JsonLinesWriter, read_json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def metrics(path: Path, max_bytes: int = 10_000, keep: int = 2) -> Iterator[JsonLines]:
    file = JsonLines(path, max_bytes=max_bytes, keep=keep, secrets=KnownSecrets("s3cret"))
    yield file
    file.close()


def test_each_record_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "home" / "metrics.jsonl"
    with metrics(path) as file:
        file.write({"name": "a", "n": 1})
        file.write({"name": "b", "where": tmp_path})
    lines = path.read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]
    assert next(read_json_lines(path)) == {"name": "a", "n": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_secrets_are_masked_wherever_they_stand(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd s3cret"

    path = tmp_path / "m"
    with metrics(path) as file:
        file.write({"s3cret": "a s3cret", "deep": [{"s3cret": ["s3cret"]}], "odd": Odd(), "n": 1})
    assert path.read_text() == '{"***":"a ***","deep":[{"***":["***"]}],"odd":"odd ***","n":1}\n'


def test_file_is_put_aside_before_it_grows_past_its_size(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with metrics(path, max_bytes=100, keep=2) as file:
        for number in range(40):
            file.write({"n": number, "x": "y" * 10})
    assert sorted(item.name for item in tmp_path.iterdir()) == ["m", "m.1", "m.2"]
    assert max(item.stat().st_size for item in tmp_path.iterdir()) <= 100
    kept = [
        record["n"] for name in ("m.2", "m.1", "m") for record in read_json_lines(tmp_path / name)
    ]
    assert kept == list(range(kept[0], 40))


def test_none_that_was_put_aside_is_kept_where_none_is_wanted(tmp_path: Path) -> None:
    with metrics(tmp_path / "m", max_bytes=30, keep=0) as file:
        for number in range(9):
            file.write({"n": number, "x": "y" * 10})
    assert [item.name for item in tmp_path.iterdir()] == ["m"]
    assert [record["n"] for record in read_json_lines(tmp_path / "m")] == [8]


def test_record_longer_than_the_file_may_be_is_written_all_the_same(tmp_path: Path) -> None:
    with metrics(tmp_path / "m", max_bytes=30) as file:
        file.write({"x": "y" * 100})
        file.write({"x": "z"})
    assert [len(record["x"]) for record in read_json_lines(tmp_path / "m.1")] == [100]


@pytest.mark.parametrize("torn", [b'{"n": 1}\n{"n"', b'{"n": 1}\n{"n": 2', b'{"n": 1}\n\xff\xfe'])
def test_torn_last_line_harms_no_other_record(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(torn)
    with metrics(path) as file:
        file.write({"n": 3})
    assert [record["n"] for record in read_json_lines(path) if "n" in record] == [1, 3]


def test_lines_that_are_no_record_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text('[1]\n\n{"n": 1}\nnull\n')
    assert list(read_json_lines(path)) == [{"n": 1}]
    assert list(read_json_lines(tmp_path / "none")) == []


def test_record_that_the_disk_took_half_of_is_said_and_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "m"
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with metrics(path) as file:
        file.write({"n": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
        try:
            with pytest.raises(OSError, match="m"):
                file.write({"n": 2, "x": "y" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        file.write({"n": 3})
    assert path.read_bytes().count(b"\n") == 3
    assert [record["n"] for record in read_json_lines(path)] == [1, 3]


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with metrics(path, max_bytes=2000, keep=50) as file:

        def work(name: int) -> None:
            for number in range(50):
                file.write({"w": name, "n": number})

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = [
        tuple(record.values()) for item in tmp_path.iterdir() for record in read_json_lines(item)
    ]
    assert sorted(seen) == [(name, number) for name in range(4) for number in range(50)]
    assert os.listdir(tmp_path)


def test_many_records_at_once_are_put_aside_like_single_ones(tmp_path: Path) -> None:
    records = [{"n": number, "x": "y" * 10} for number in range(40)]
    with metrics(tmp_path / "one", max_bytes=100) as file:
        for record in records:
            file.write(record)
    with metrics(tmp_path / "all", max_bytes=100) as file:
        file.write(*records)
    for end in ("", ".1", ".2"):
        one, together = tmp_path / f"one{end}", tmp_path / f"all{end}"
        assert one.read_bytes() == together.read_bytes()


async def test_records_of_one_moment_are_handed_over_together(tmp_path: Path) -> None:
    groups: list[int] = []

    class Counting(JsonLines):
        def write(self, *records: Mapping[str, Any]) -> None:
            groups.append(len(records))
            super().write(*records)

    path = tmp_path / "m"
    file = Counting(path, max_bytes=10_000, keep=0, secrets=KnownSecrets())
    writer = JsonLinesWriter(file, failed=lambda error: pytest.fail(str(error)))
    for number in range(5):
        writer.add({"n": number})
        await asyncio.sleep(0)
    await writer.flush()
    writer.add({"n": 5})
    await writer.close()
    assert groups == [5, 1]
    assert [record["n"] for record in read_json_lines(path)] == [0, 1, 2, 3, 4, 5]


async def test_what_is_added_is_written_without_a_flush(tmp_path: Path) -> None:
    written = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Telling(JsonLines):
        def write(self, *records: Mapping[str, Any]) -> None:
            super().write(*records)
            loop.call_soon_threadsafe(written.set)

    path = tmp_path / "m"
    file = Telling(path, max_bytes=10_000, keep=0, secrets=KnownSecrets())
    writer = JsonLinesWriter(file, failed=lambda error: pytest.fail(str(error)))
    for number in range(2):
        writer.add({"n": number})
        await written.wait()
        written.clear()
        assert [record["n"] for record in read_json_lines(path)] == list(range(number + 1))
    await writer.close()


async def test_what_a_full_disk_did_not_take_is_written_by_itself_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "GATHER_SECONDS", 0)
    monkeypatch.setattr(json_lines, "AGAIN_SECONDS", 0)
    path, room = tmp_path / "m", [0, 3, 0, 5]
    told: asyncio.Queue[str] = asyncio.Queue()

    class Full(JsonLines):
        def _append(self, text: bytes | bytearray) -> None:
            if not room:
                return super()._append(text)
            assert self._file is not None
            lines = text.splitlines(keepends=True)
            self._file.write(b"".join(lines[: room[0]]) + b'{"n": 99')
            self.appended += min(len(lines), room.pop(0))
            self._close()
            raise OSError(errno.ENOSPC, "No space left on device")

    file = Full(path, max_bytes=10_000, keep=0, secrets=KnownSecrets())
    writer = JsonLinesWriter(
        file,
        failed=lambda error: told.put_nowait(str(error)),
        worked=lambda: told.put_nowait("good"),
        capacity=12,
    )
    for number in range(15):
        writer.add({"n": number})
    async with asyncio.timeout(120):
        said = [await told.get() for _ in range(5)]
    assert [one == "good" for one in said] == [False] * 4 + [True]
    writer.add({"n": 15})
    await writer.close()
    assert [one["n"] for one in read_json_lines(path) if "n" in one] == list(range(3, 16))
    assert told.empty(), "what goes on well is not said each time"


async def test_a_file_that_cannot_be_written_holds_nobody_up_who_closes(tmp_path: Path) -> None:
    failed: list[OSError] = []
    (tmp_path / "m").mkdir()
    file = JsonLines(tmp_path / "m", max_bytes=10_000, keep=0, secrets=KnownSecrets())
    writer = JsonLinesWriter(file, failed=failed.append)
    writer.add({"n": 1})
    await writer.close()
    assert [type(one) for one in failed] == [IsADirectoryError]

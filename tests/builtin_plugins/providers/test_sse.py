from __future__ import annotations

import itertools
import json
import tracemalloc
from typing import TYPE_CHECKING

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.transcripts import ANTHROPIC, OPENAI, sse

from hookgate.builtin_plugins.providers.wire.protocol import MAX_EVENT, SSEError, SSESplitter

if TYPE_CHECKING:
    from collections.abc import Iterable


def split(chunks: Iterable[bytes]) -> list[bytes]:
    splitter = SSESplitter()
    return [data for chunk in chunks for data in splitter.feed(chunk)]


def oracle(stream: bytes) -> list[bytes]:
    """Return what httpx-sse makes of it, without the events that have no data."""
    response = httpx.Response(
        200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=stream
    )
    # It dispatches on the id alone as well, with empty data: such an event is none.
    return [event.data.encode() for event in EventSource(response).iter_sse() if event.data]


TRANSCRIPTS = [
    sse(*OPENAI),
    sse(*ANTHROPIC),
    sse(*OPENAI, end="\r\n"),
    sse(*ANTHROPIC[:6], end="\r"),
    b": keep-alive\n\n" + sse(*OPENAI[:2]) + b": ping\r\n\r\n" + sse("[DONE]"),
    b"data: one\ndata: two\ndata:\ndata\n\nretry: 10\nid: 7\n\nevent: x\n\ndata:three\n\n",
]


@pytest.mark.parametrize("stream", TRANSCRIPTS)
def test_it_reads_what_httpx_sse_reads(stream: bytes) -> None:
    assert split([stream]) == oracle(stream)
    assert split([stream])


@pytest.mark.parametrize("stream", TRANSCRIPTS)
def test_a_split_at_any_byte_changes_nothing(stream: bytes) -> None:
    whole = split([stream])
    for at in range(len(stream) + 1):
        assert split([stream[:at], stream[at:]]) == whole


@pytest.mark.parametrize("stream", TRANSCRIPTS)
def test_byte_by_byte_is_the_same_as_at_once(stream: bytes) -> None:
    assert split(bytes([byte]) for byte in stream) == split([stream])


LINES = st.sampled_from(
    [
        "data: a",
        "data:b",
        "data:  c",
        "data",
        "data:",
        'data: {"t": "ü\u2028\u2029\x85😀"}',
        "event: x",
        "id: 1",
        ": comment",
        ":",
        "data : no",
        "DATA: no",
        "",
        "retry: 5",
        "\ufeffdata: no",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(
    st.lists(st.tuples(LINES, ENDS), max_size=30),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=8),
)
@example([("data: x", "\r"), ("", "\n"), ("", "\n")], False, [8, 9])
def test_random_streams_in_random_chunks_read_as_httpx_sse_reads_them(
    lines: list[tuple[str, str]], bom: bool, cuts: list[int]
) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    if stream.startswith(b"\xef\xbb\xbf"):
        stream = b"\n" + stream
    places = sorted({min(cut, len(stream)) for cut in cuts})
    bounds = [0, *places, len(stream)]
    chunks = [stream[one:two] for one, two in itertools.pairwise(bounds)]
    if bom:
        chunks = [b"\xef", b"\xbb\xbf" + chunks[0], *chunks[1:]]
    assert [data for data in split(chunks) if data] == oracle(stream)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_read_without_an_error(stream: bytes, cut: int) -> None:
    assert split([stream[:cut], stream[cut:]]) == split([stream])


def test_a_byte_order_mark_is_not_part_of_the_first_line() -> None:
    assert split([b"\xef\xbb\xbfdata: x\n\n"]) == [b"x"]
    assert split([b"\xef", b"\xbb", b"\xbf", b"data: x\n\n"]) == [b"x"]


def test_an_event_of_empty_data_is_an_event() -> None:
    assert split([b"data:\n\ndata\n\n"]) == [b"", b""]


@pytest.mark.parametrize("pieces", [1, 7, 600])
def test_a_line_of_600_kilobytes_is_read(pieces: int) -> None:
    text = json.dumps({"t": "x" * 614_400}).encode()
    stream = b"data: " + text + b"\n\n"
    size = len(stream) // pieces + 1
    assert split(stream[at : at + size] for at in range(0, len(stream), size)) == [text]


def test_data_at_the_cap_is_read_and_beyond_it_refused() -> None:
    assert split([b"data: " + b"x" * MAX_EVENT + b"\n\n"]) == [b"x" * MAX_EVENT]
    with pytest.raises(SSEError, match="an event is longer"):
        split([b"data: " + b"x" * (MAX_EVENT + 1) + b"\n\n"])
    with pytest.raises(SSEError, match="an event is longer"):
        split([b"data: " + b"x" * 65_536 + b"\n"] * 17)


def test_a_line_that_never_ends_is_refused_before_it_is_kept() -> None:
    splitter = SSESplitter()
    with pytest.raises(SSEError, match="a line is longer"):
        for _ in range(20):
            splitter.feed(b"x" * 65_536)


def test_what_is_copied_for_a_long_line_grows_with_its_length_only() -> None:
    splitter, size, copied = SSESplitter(), 200_000, 0
    tracemalloc.start()
    try:
        for chunk in [b"data: ", *[b"x" * 16] * (size // 16), b"\n"]:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            splitter.feed(chunk)
            copied += tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert splitter.feed(b"\n") == [b"x" * size]
    # A splitter that joins again and again copies the line six thousand times.
    assert copied < 100 * size


@pytest.mark.parametrize(
    ("stream", "left"),
    [
        (b"data: x\n\n", None),
        (b"data: x\n", b"x"),
        (b"data: x", b"x"),
        (b"data: x\ndata: y", b"x\ny"),
        (b": comment", None),
        (b"", None),
    ],
)
def test_the_last_event_may_lack_its_blank_line(stream: bytes, left: bytes | None) -> None:
    splitter = SSESplitter()
    splitter.feed(stream)
    assert splitter.close() == left


@given(
    st.lists(
        st.sampled_from(["data: {}\n\n", "data: a\nb\n\n", "data: a\n", ": x\n\n", "\n", "data:"])
    )
)
def test_whole_events_as_chunks_read_as_the_same_bytes_at_once(chunks: list[str]) -> None:
    pieces = [chunk.encode() for chunk in chunks]
    assert split(pieces) == split([b"".join(pieces)])

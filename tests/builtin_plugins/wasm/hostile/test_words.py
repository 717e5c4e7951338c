"""What hostile guests say, to the host and as their answer, is read within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.builtin_plugins.wasm.conftest import Started
from tests.builtin_plugins.wasm.folders import write_plugin
from tests.builtin_plugins.wasm.guests import binary
from tests.support.examples import sampled
from tests.support.heartbeat import HELD, Heartbeat

MB = 1024 * 1024
TRIES = 5
"""On a busy machine one of so many must leave the event loop alone."""

ANSWER = r"{\22content\22:\22done\22}"
FREE, OUT = 4096, 65_536
_GUEST = """
(module
  {imports}
  (memory (export "memory") {pages})
  (func (export "alloc") (param i32) (result i32) (i32.const {free}))
  (data (i32.const 0) "{before}") (data (i32.const 1024) "{again}")
  (data (i32.const 2048) "{after}") (data (i32.const 3072) "{answer}")
  (func (export "handle_tool_call") (param i32 i32) (result i64) (local $to i32) (local $left i32)
    (local.set $left (i32.const {times}))
    (memory.copy (i32.const {out}) (i32.const 0) (i32.const {lengths[0]}))
    (local.set $to (i32.const {first}))
    (loop $next
      (memory.copy (local.get $to) (i32.const 1024) (i32.const {lengths[1]}))
      (local.set $to (i32.add (local.get $to) (i32.const {lengths[1]})))
      (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    (memory.copy (local.get $to) (i32.const 2048) (i32.const {lengths[2]}))
    {end}))
"""


@dataclass(frozen=True)
class Words:
    """JSON that a guest makes: `again` so many times, between `before` and `after`."""

    before: str
    again: str
    times: int
    after: str

    def guest(self, asks: str = "") -> bytes:
        """Return a guest that hands them to a host function, or answers with them."""
        parts = [one.encode() for one in (self.before, self.again, self.after)]
        size = len(parts[0]) + self.times * len(parts[1]) + len(parts[2])
        quoted = ["".join(f"\\{byte:02x}" for byte in part) for part in parts]
        answers = f"(i64.const {3072 << 32 | len(ANSWER) - 8})"
        host = f'(import "hookgate" "{asks}" (func $ask (param i32 i32) (result i64)))'
        asking = f"(drop (call $ask (i32.const {OUT}) (i32.const {size}))) {answers}"
        return binary(
            _GUEST.format(
                imports=host if asks else "",
                pages=2 + size // 65_536,
                free=FREE,
                before=quoted[0],
                again=quoted[1],
                after=quoted[2],
                answer=ANSWER,
                times=self.times,
                out=OUT,
                first=OUT + len(parts[0]),
                lengths=[len(part) for part in parts],
                end=asking if asks else f"(i64.const {OUT << 32 | size})",
            )
        )


KEYS = Words('{"message":"x"', ',"key":1', 1_400_000, "}")
"""A million keys and more, that nobody knows: 11 MB."""
GRANTS = {
    "log": "log",
    "clock": "clock",
    "random": "random",
    "store": "store:notes",
    "http": "http:POST http://127.0.0.1/*",
    "env": "env:TZ",
}
ASKED = {
    **{f"a-million-keys-to-{name}": (name, KEYS) for name in GRANTS},
    "as-many-keys-as-fit-to-http": ("http", Words('{"url":"x"', ',"k":1', 690_000, "}")),
    "as-many-keys-as-fit-to-store": ("store", Words('{"op":"get"', ',"k":1', 690_000, "}")),
    "wrong-headers": ("http", Words('{"headers":{"k":1', ',"k":1', 690_000, "}}")),
    "escapes-to-store": ("store", Words('{"op":"get","key":"', "\\n", 2_000_000, '"}')),
    "deep": ("http", Words("", "[", 4_000_000, "")),
    "a-body-of-many-keys-around-a-secret": (
        "http",
        Words(
            '{"method":"POST","url":"http://127.0.0.1/","body":"{\\"a\\":\\"{{secret:k}}\\"',
            ',\\"k\\":1',
            400_000,
            '}"}',
        ),
    ),
}
ANSWERED = {
    "wrong-parts": (Words('{"content":[{}', ",{}", 300_000, "]}"), "1,000 elements in one array"),
    "wrong-parts-within-bounds": (Words('{"content":[{}', ",{}", 999, "]}"), "content"),
    "keys": (Words('{"content":"x"', ',"k":1', 160_000, "}"), "64 keys in one object"),
    "arrays-of-arrays": (
        Words('{"content":[[]', "," + "[" + ",".join(["[]"] * 250) + "]", 900, "]}"),
        "20,000 values",
    ),
    "deep": (Words('{"content":', "[", 1_000_000, ""), "16 objects and arrays within each other"),
    "escapes": (Words('{"content":"', "\\n", 510_000, '"}'), "500,000 backslashes"),
    "a-long-number": (Words('{"content":', "9", 1_000_000, "}"), "64 characters in one number"),
    "no-json": (Words("{", "1 ", 500_000, ""), "20,000 values"),
}
TAKEN = {
    "a-long-text": Words('{"content":"', "abcdefgh", 130_000, '"}'),
    "as-many-escapes-as-are-taken": Words('{"content":"', "\\n", 499_000, '"}'),
    "a-picture": Words(
        '{"content":[{"type":"image","media_type":"image/png","data":"', "AAAA", 260_000, '"}]}'
    ),
    "blanks": Words("", " ", 1_000_000, '{"content":"done"}'),
}


async def called(started: Started, tmp_path: Path, data: bytes, *grants: str) -> tuple[str, float]:
    """Call the tool of a guest; return what it came to, and how long the loop was held at best."""
    write_plugin(tmp_path / "plugins" / "hostile", data, grants=grants)
    held = []
    async with started(secrets={"k": "a-secret-of-ours"}) as sandboxed:
        for _ in range(TRIES):
            async with Heartbeat() as heart:
                result = await sandboxed.call("ask", {})
            held.append(heart.longest)
            if held[-1] < HELD:
                break
    return result.text, min(held)


@pytest.mark.parametrize("name", sampled(ASKED, every=7))
async def test_what_it_asks_of_the_host_does_not_hold_the_event_loop(
    name: str, started: Started, tmp_path: Path
) -> None:
    function, words = ASKED[name]
    more = ("secret:k -> body @ http://127.0.0.1/*",) if "secret" in name else ()

    text, held = await called(started, tmp_path, words.guest(function), GRANTS[function], *more)

    assert text == "done", "a request that is refused ends no call"
    assert held < HELD


@pytest.mark.parametrize("name", sampled(ANSWERED, every=4))
async def test_its_answer_is_refused_at_its_bound_and_does_not_hold_the_event_loop(
    name: str, started: Started, tmp_path: Path
) -> None:
    words, told = ANSWERED[name]

    text, held = await called(started, tmp_path, words.guest())

    assert text.startswith("ask failed: guest 'hostile': the answer of handle_tool_call: ")
    assert told in text
    assert len(text) < 400
    assert held < HELD


@pytest.mark.parametrize("name", sampled(TAKEN, every=4))
async def test_what_is_long_and_right_is_taken(name: str, started: Started, tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins" / "hostile", TAKEN[name].guest())

    async with started() as sandboxed:
        result = await sandboxed.call("ask", {})

    assert not result.is_error, result.text[:300]

"""What guests are written with reads and writes JSON as everybody does, and never traps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.core.json_cases import ACCEPTED, REFUSED

from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox

from .examples import FOLDERS, TOOL, ask, load

DEEPEST = 64
"""Containers within containers that the kits read."""
FETCHING = "http-assemblyscript"
LIMITS = Limits(output_bytes=1 << 22)


def as_python_reads(text: str) -> tuple[bool, Any]:
    """Return whether a text is JSON, and the value; numbers stay as they were written."""

    def refused(constant: str) -> None:
        raise ValueError(constant)

    try:
        return True, json.loads(text, parse_constant=refused, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False, None


def texts() -> Iterator[str]:
    """Valid JSON, JSON that is a little wrong, and what other readers were tripped by."""
    for name, data in {**{n: t for n, (t, _) in ACCEPTED.items()}, **REFUSED}.items():
        # Duplicate keys and depth are each reader's own affair.
        shallow = data.count(b"[") + data.count(b"{") < 40
        if "same_key" not in name and "duplicat" not in name and shallow:
            try:
                yield data.decode()
            except UnicodeDecodeError:
                continue
    chance = random.Random(15)
    words = ("true", "null", '"a"', "\\u00e9", "é", "😀")
    pieces = [*'{}[],:"\\/ \n\t-+.eE0159abfnrtux', *words]
    for _ in range(400):
        made = json.dumps(value(chance, 4), ensure_ascii=chance.random() < 0.5)
        yield made
        at = chance.randrange(len(made) + 1)
        yield made[:at] + chance.choice(pieces) + made[at + chance.randrange(3) :]
        yield "".join(chance.choices(pieces, k=chance.randrange(1, 12)))


def value(chance: random.Random, depth: int) -> Any:
    """Make a value."""
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {text(chance): value(chance, depth - 1) for _ in range(chance.randrange(4))}
    number = chance.choice([0, -1, 2**63, -(2**63), 10**30, 1.5, -2e-7])
    return chance.choice([None, True, False, number, text(chance)])


def text(chance: random.Random) -> str:
    return "".join(chance.choices(["a", '"', "\\", "/", "\n", "\x01", "é", "😀", " "], k=3))


TEXTS = list(dict.fromkeys(texts()))


async def c_reads(guest: Guest, text: str) -> tuple[bool, Any]:
    """What the C kit makes of a text: its echo is told the text itself, as an item beside it."""
    request = f'{{"name":"echo","input":{{"text":"read","other":{text}}}}}'
    answer = json.loads(await guest.call(TOOL, request.encode(), host={}))
    return answer == {"content": "read"}, None


async def rust_reads(guest: Guest, text: str) -> tuple[bool, Any]:
    """What the Rust kit makes of a text: Telegram says whether what came is JSON."""
    answer = await ask(guest, "parse_incoming", {"kind": "webhook", "body": text})
    return "found no JSON" not in str(answer), None


async def assemblyscript_reads(guest: Guest, text: str) -> tuple[bool, Any]:
    """What the AssemblyScript kit makes of a text: it reads it and writes it again."""

    def http(request: bytes, context: CallContext) -> bytes:
        body = f'{{"it":{text}}}'
        return json.dumps({"ok": {"status": 200, "body": body}}).encode()

    given = {"url": "u", "field": "it"}
    answer = await ask(guest, TOOL, {"name": "json_field", "input": given}, http=http)
    if answer.get("is_error"):
        return False, None
    said = as_python_reads(answer["content"])
    return True, said[1] if said[0] else answer["content"]


READERS = {
    "echo-c": c_reads,
    "telegram": rust_reads,
    FETCHING: assemblyscript_reads,
}


def test_there_are_texts_of_both_kinds() -> None:
    found = [as_python_reads(text)[0] for text in TEXTS]

    assert len(TEXTS) > 900
    assert 250 < sum(found) < len(TEXTS) - 250


@pytest.mark.parametrize("name", READERS)
async def test_a_kit_takes_what_is_json_and_nothing_else(sandbox: Sandbox, name: str) -> None:
    guest = await load(sandbox, FOLDERS[name], LIMITS)

    for text in TEXTS:
        # Within another object some texts that are none by themselves would be its end.
        framed = name != "telegram"
        expected = as_python_reads(f'{{"it":{text}}}' if framed else text)
        found = await READERS[name](guest, text)
        assert found[0] == expected[0], text


async def test_a_value_that_was_read_is_written_as_it_was(sandbox: Sandbox) -> None:
    guest = await load(sandbox, FOLDERS[FETCHING], LIMITS)

    for text in TEXTS:
        is_json, expected = as_python_reads(text)
        halves = "\\ud" in repr(expected)  # of pairs, which no text can hold
        if is_json and not isinstance(expected, str) and not halves:
            assert await assemblyscript_reads(guest, text) == (True, expected), text


@pytest.mark.parametrize(("name", "around"), [("echo-c", 2), ("telegram", 0), (FETCHING, 1)])
async def test_a_kit_reads_so_deep_and_no_deeper(sandbox: Sandbox, name: str, around: int) -> None:
    guest = await load(sandbox, FOLDERS[name], LIMITS)

    for opened, closed in ("[]", ('{"a":', "}")):
        for depth, read in ((DEEPEST - around, True), (DEEPEST - around + 1, False)):
            deep = opened * depth + "1" + closed * depth
            assert (await READERS[name](guest, deep))[0] == read
    assert (await READERS[name](guest, "[" * 100_000))[0] is False


async def test_many_escapes_and_items_take_no_more_memory_than_their_length(
    sandbox: Sandbox,
) -> None:
    guest = await load(sandbox, FOLDERS[FETCHING], LIMITS)

    for text in ('"' + "\\n\\u00e9" * 20_000 + '"', "[" + "1," * 100_000 + "1]"):
        assert await assemblyscript_reads(guest, text) == as_python_reads(text)


@pytest.mark.parametrize("half", ["\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800x"])
async def test_half_of_a_pair_becomes_the_replacement_character(
    sandbox: Sandbox, half: str
) -> None:
    echo, fetching = [await load(sandbox, FOLDERS[one]) for one in ("echo-c", FETCHING)]
    said = half.replace("\\ud800", "\ufffd").replace("\\udc00", "\ufffd")

    request = f'{{"name":"echo","input":{{"text":"{half}"}}}}'
    answer = json.loads(await echo.call(TOOL, request.encode(), host={}))
    assert answer == {"content": said}

    assert await assemblyscript_reads(fetching, f'"{half}"') == (True, said)


@pytest.mark.parametrize("name", ["echo-c", "text-rust", FETCHING])
@pytest.mark.parametrize(
    "request_", [b"", b"[", b"null", b"7", b'{"name":"echo"}', b'{"input":[]}']
)
async def test_a_request_that_is_none_gets_an_error_and_no_trap(
    sandbox: Sandbox, name: str, request_: bytes
) -> None:
    guest = await load(sandbox, FOLDERS[name])

    answer = json.loads(await guest.call(TOOL, request_, host={}))

    assert answer["is_error"] is True

"""The bounds of what a guest says, held before anything is made of it.

A parser makes an object of every value and an error of every wrong one, so that a million keys
are a gigabyte and seconds in which nothing else runs. Here the text alone is looked through:
the signs that make a value are counted, strings are stepped over, and the first bound that is
passed ends it. What a parser would take for a value is never more than what is counted here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

KEYS = 64
"""Keys of one object."""
PARTS = 1_000
"""Elements of one array."""
DEPTH = 16
"""Objects and arrays within each other."""
VALUES = 20_000
"""Values in all: a full page of messages has about half as many."""
ESCAPES = 500_000
"""Backslashes in all: each is a step of its own for a parser, which holds all threads meanwhile."""
SCALAR = 64
"""Characters of a number: those of a number of 64 bits, and of a float that is written out."""
LONG = 32 * 1024
"""Bytes from which something is read beside the event loop."""

STEPS = 4 * VALUES
"""Values, signs and blanks between them; there are as many only in what is no JSON."""
TOKEN = re.compile(
    rb"""[ \t\r\n:]{0,65536}+ (?: (?P<open>[{\[]) | (?P<close>[}\]]) | (?P<next>,) | (?P<text>")
    | (?P<scalar>[^ \t\r\n:"{}\[\],]{1,65}+) )?""",
    re.VERBOSE,
)
# In pieces: a match over megabytes would hold all threads of the process.
ESCAPED = re.compile(rb'(?:\\.|[^"\\]{1,64}+){1,1024}+', re.DOTALL)

P = ParamSpec("P")
T = TypeVar("T")


class TooMuchError(ValueError):
    """It holds more than a bound; the text says what was found, and what was expected."""


def hold(data: bytes) -> None:
    """Look through JSON, and build nothing of it. What is no JSON is for the parser to tell.

    Raises:
        TooMuchError: It passes a bound.
    """
    if data.count(b"\\") > ESCAPES:
        raise TooMuchError(_told(ESCAPES, "backslashes"))
    members: list[tuple[int, int]] = []
    at = values = 0
    for _ in range(STEPS):
        token = TOKEN.match(data, at)
        if token is None or token.end() == at:
            return
        at = token.end()
        match token.lastgroup:
            case "open":
                members.append((1, KEYS if data[at - 1 : at] == b"{" else PARTS))
                values += 1
                if len(members) > DEPTH:
                    raise TooMuchError(_told(DEPTH, "objects and arrays within each other"))
            case "next" if members:
                count, most = members[-1]
                if count == most:
                    of = "keys in one object" if most == KEYS else "elements in one array"
                    raise TooMuchError(_told(most, of))
                members[-1] = count + 1, most
                values += 1
            case "text":
                at = _end_of_text(data, at)
            case "scalar" if len(token["scalar"]) > SCALAR:
                raise TooMuchError(_told(SCALAR, "characters in one number"))
            case "close" if members:
                members.pop()
        if values > VALUES:
            raise TooMuchError(_told(VALUES, "values"))
        if not members and token.lastgroup:
            return  # the value is over, or it is no JSON
    raise TooMuchError(_told(VALUES, "values"))


def _end_of_text(data: bytes, at: int) -> int:
    """Return where the string ends whose first character stands at `at`; the end without one."""
    quote = -1
    while True:
        if quote < at:
            quote = data.find(b'"', at)
            if quote < 0:
                return len(data)
        escape = data.find(b"\\", at, quote)
        if escape < 0:
            return quote + 1
        piece = ESCAPED.match(data, escape)
        if piece is None:
            return len(data)  # a backslash at the very end
        at = piece.end()


def _told(most: int, what: str) -> str:
    return f"found more than {most:,} {what}, expected at most {most:,}"


async def aside(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on a thread where what it reads is long, so that the event loop goes on.

    Args:
        size: How long it is, in bytes or characters.
        function: Reads it.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    if size < LONG:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)

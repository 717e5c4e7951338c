"""Cards from elsewhere: fetched by HTTP, and used only where their digest is the pinned one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from hookgate import Card, Egress, HookgateError
from hookgate.builtin_plugins.awareness.cards.folders import CARD_BYTES, parse_card
from hookgate.kit.content.documents import Reading
from hookgate.kit.content.files import decoded, write_whole
from hookgate.kit.content.problems import ContentError, Problem

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.settings import RemoteCard

TIMEOUT = 10.0
"""Seconds that one card may take; a source that does not answer must not hold up a start."""


async def fetched(
    sources: Sequence[RemoteCard], egress: Egress | None, kept: Path
) -> list[Reading[Card]]:
    """Return a reading of every source, in their order. It raises nothing.

    What has the pinned digest is kept, so that a source which is away later costs nothing, and
    is never asked again.

    Args:
        sources: The sources.
        egress: The way out; None where no plugin provides one.
        kept: The folder in which files are kept, by their digest.
    """
    return list(await asyncio.gather(*(_fetch(one, egress, kept) for one in sources)))


async def _fetch(source: RemoteCard, egress: Egress | None, kept: Path) -> Reading[Card]:
    path = kept / f"{source.sha256}.md"
    raw = await asyncio.to_thread(_read, path)
    unkept: tuple[Problem, ...] = ()
    try:
        if raw is None or _digest(raw) != source.sha256:
            raw = await _ask(source, egress)
            unkept = await asyncio.to_thread(_keep, path, raw, source)
        text = decoded(raw, source.url, max_bytes=CARD_BYTES)
    except ContentError as error:
        return Reading(problems=(error.problem,))
    reading = await asyncio.to_thread(
        parse_card, text, source.url, origin="configured", trusted=False, strict=True
    )
    return replace(reading, problems=(*unkept, *reading.problems))


async def _ask(source: RemoteCard, egress: Egress | None) -> bytes:
    if egress is None:
        raise ContentError(_wrong(source, "no way out", "the plugin `egress`"))
    try:
        async with egress.client(
            [source.url], name="awareness", timeout=TIMEOUT, max_bytes=CARD_BYTES
        ) as client:
            response = await client.get(source.url)
    except (HookgateError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ContentError(_wrong(source, f"no answer ({error})")) from error
    if not response.is_success:
        # Redirects are not followed: what is pinned is this URL.
        answer = f"the answer {response.status_code} {response.reason_phrase}"
        raise ContentError(_wrong(source, answer, "a card, at this very URL"))
    found = _digest(response.content)
    if found != source.sha256:
        raise ContentError(
            _wrong(
                source,
                f"a file with the digest {found}",
                f"the pinned digest {source.sha256}: look at what has changed, and pin that",
            )
        )
    return response.content


def _keep(path: Path, raw: bytes, source: RemoteCard) -> tuple[Problem, ...]:
    try:
        write_whole(path, raw, durable=True)
    except OSError as error:
        # It is the pinned card all the same; it is fetched again the next time.
        problem = _wrong(source, f"no room to keep it ({error})", f"a folder to write to: {path}")
        return (replace(problem, severity="warning"),)
    return ()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _wrong(source: RemoteCard, found: str, expected: str = "a card") -> Problem:
    return Problem(file=source.url, found=found, expected=expected)

"""What short messages find among the capabilities that come with hookgate.

A gateway is started with every builtin tool granted, and each message is searched for as the
command ``hookgate discover`` does. Two files hold them: the floor of relevance is fitted to
``short_tuned.txt``, and ``short_held_out.txt`` is what is measured. One author wrote both.
``--languages`` measures 40 of the latter as they are and translated, which ``short_languages.txt``
holds: what describes the capabilities is English.

Run: ``python -m benchmarks.discovery.short_messages [--tuned | --languages] [--misses]``
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import Figure, report
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

HERE = Path(__file__).parent
HELD_OUT, TUNED = HERE / "short_held_out.txt", HERE / "short_tuned.txt"
TRANSLATED = HERE / "short_languages.txt"
LANGUAGES = ("English", "German", "Spanish", "French", "Chinese")
"""What the columns of `TRANSLATED` are written in."""

DRAWS = 1000
"""Samples of a bootstrap interval."""

FOUND, QUIET = 55 / 60, 58 / 60
"""The least share of messages that find what is meant, and of idle ones that find nothing."""


@dataclass(frozen=True, slots=True)
class Message:
    """A short message, and the names of what it asks for: one of them, or nothing."""

    text: str
    wanted: frozenset[str]


def messages(path: Path) -> list[Message]:
    """Return the messages of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = [line.partition(" -> ") for line in lines if line and not line.startswith("#")]
    return [
        Message(text, frozenset(name.strip() for name in names.split(",") if name.strip()))
        for text, _, names in parts
    ]


def translated() -> dict[str, list[Message]]:
    """Return the messages that are there in several languages, by language."""
    wanted = {one.text: one.wanted for one in messages(HELD_OUT)}
    lines = TRANSLATED.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {
        language: [Message(row[at], wanted[row[0]]) for row in rows]
        for at, language in enumerate(LANGUAGES)
    }


def interval(hits: Sequence[bool]) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the share of hits."""
    draw = random.Random(0)
    shares = sorted(sum(draw.choices(hits, k=len(hits))) / len(hits) for _ in range(DRAWS))
    return shares[DRAWS // 40], shares[-1 - DRAWS // 40]


async def found_for(texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the names of what each message finds above the floor, in a gateway of its own."""
    with TemporaryDirectory() as home:
        granted = {"http_get": ["https://example.org/*"], "read_roots": [home]}
        data = {"home": home, "plugins": {"entry_points": False}, "plugin": {"tools": granted}}
        async with Gateway(Settings.model_validate(data)) as gateway:
            operation = gateway.host.operations["discovery.discover"]
            invocation = Invocation(host=gateway.host, principal=Principal.owner())
            found = {}
            for text in texts:
                came = await operation.handler(invocation, operation.params(query=text))
                assert came.vectors, came.problem
                found[text] = [one.id.partition(":")[2] for one in came.found if not one.pulled_by]
            return found


def show(every: Sequence[Message], found: Mapping[str, Sequence[str]]) -> None:
    """Print what some messages found."""
    for one in every:
        print(f"{one.text!r}: found {', '.join(found[one.text]) or 'nothing'}")


def by_language(*, misses: bool) -> list[Figure]:
    """Return how many messages of each language find what is meant."""
    sets = translated()
    found = asyncio.run(found_for([one.text for every in sets.values() for one in every]))
    figures = []
    for language, every in sets.items():
        hits = [not one.wanted.isdisjoint(found[one.text]) for one in every]
        low, high = interval(hits)
        nothing = sum(not found[one.text] for one in every)
        figures.append(
            Figure(name=f"short_messages.{language}", value=sum(hits) / len(hits), unit="share",
                   against=f"{len(hits)} messages [{low:.2f}, {high:.2f}], {nothing} find nothing")
        )  # fmt: skip
        if misses:
            show([one for one, hit in zip(every, hits, strict=True) if not hit], found)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tuned", action="store_true", help="those that the floor is fitted to")
    which.add_argument("--languages", action="store_true", help="40 of them in five languages")
    parser.add_argument("--misses", action="store_true", help="name what went wrong")
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    chosen = parser.parse_args()
    if chosen.languages:
        report("short messages", by_language(misses=chosen.misses))
        return
    asked = messages(TUNED if chosen.tuned else HELD_OUT)
    found = asyncio.run(found_for([one.text for one in asked]))
    meant = [one for one in asked if one.wanted]
    idle = [one for one in asked if not one.wanted]
    missed = [one for one in meant if one.wanted.isdisjoint(found[one.text])]
    heard = [one for one in idle if found[one.text]]
    if chosen.misses:
        show([*missed, *heard], found)
    report(
        "short messages",
        [
            Figure(name="short_messages.found", value=1 - len(missed) / len(meant), unit="share",
                   against=f"{len(meant)} that ask for what comes with hookgate",
                   goal=FOUND, at_least=True),
            Figure(name="short_messages.quiet", value=1 - len(heard) / len(idle), unit="share",
                   against=f"{len(idle)} that ask for nothing", goal=QUIET, at_least=True),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()

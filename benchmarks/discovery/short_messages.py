"""What short messages find among the capabilities that come with hookgate.

A gateway is started with every builtin tool granted, and each message is searched for as the
command ``hookgate discover`` does. Two files hold them: the floor of relevance is fitted to
``short_tuned.txt``, and ``short_held_out.txt`` is what is measured. One author wrote both.

Run: ``python -m benchmarks.discovery.short_messages [--tuned] [--misses]``
"""

from __future__ import annotations

import argparse
import asyncio
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tuned", action="store_true", help="those that the floor is fitted to")
    parser.add_argument("--misses", action="store_true", help="name what went wrong")
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    chosen = parser.parse_args()
    asked = messages(TUNED if chosen.tuned else HELD_OUT)
    found = asyncio.run(found_for([one.text for one in asked]))
    meant = [one for one in asked if one.wanted]
    idle = [one for one in asked if not one.wanted]
    missed = [one for one in meant if one.wanted.isdisjoint(found[one.text])]
    heard = [one for one in idle if found[one.text]]
    if chosen.misses:
        for one in (*missed, *heard):
            print(f"{one.text!r}: found {', '.join(found[one.text]) or 'nothing'}")
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

"""How much of a budget can be used before a call is refused, and how far a call goes past it.

    python -m benchmarks.metering.room [--quick]

Real gateways with a real store ask a provider that bills as a real one does: by the tokens that
real tokenizers make of texts (`texts/counted.json`), and that keeps to `max_output_tokens`. Each
run begins with a gateway that knows nothing of the model, and sends messages into one session until
one is refused. What is *usable* is what was used and what the refused call would have used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, report
from hookgate import Event, ModelEvent, ModelInfo, ModelRequest, Turn, hookimpl
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.models import StopEvent, TextDelta, Usage, UsageEvent
from hookgate.kit.testing.gateway import started
from hookgate.kit.tokens.sizes import typical_of_text

RECORDED = json.loads(Path(__file__).with_name("counted.json").read_text("utf-8"))
TOKENIZERS: Sequence[str] = RECORDED["tokenizers"]
LOADS: dict[str, tuple[str, ...]] = {
    "english": ("english",),
    "european": ("english", "german", "french", "spanish", "polish", "turkish"),
    "chinese": ("chinese",),
    "indic": ("hindi", "bengali", "tamil"),
    "mixed": ("english", "russian", "korean", "code", "json", "figures", "emoji", "arabic"),
}
"""Of what kinds of text the messages and answers of a load are."""
NEEDED = ("storage", "metering")
BETWEEN = "\n\n"
MOST_TURNS = 400
SMALL = 20
"""A call is small if so many of them fit a limit."""
MOST_OUTPUT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One load on one limit.

    Attributes:
        tokenizer: By whose counts the provider bills.
        load: A name of `LOADS`.
        size: Tokens of a message and its answer, about.
        limit: Tokens of the session.
        history: Turns of the conversation that each request repeats.
        bare: Whether nothing stands beside the message: no tools, cards or instructions of
            plugins, which are 1,800 tokens of each call.
    """

    tokenizer: str
    load: str
    size: int
    limit: int
    history: int = 0
    bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of a run.

    Attributes:
        run: The run.
        calls: How many calls were answered.
        used: The tokens that they were billed for.
        needed: The tokens that the refused call would have been billed for.
        lowered: How many of them were told to write less than usual.
    """

    run: Run
    calls: int
    used: int
    needed: int
    lowered: int

    @property
    def share(self) -> float:
        """The share of the limit that was used."""
        return self.used / self.run.limit

    @property
    def usable(self) -> float:
        """The same with what the refused call would have used, 1 at most."""
        return min((self.used + self.needed) / self.run.limit, 1.0)

    @property
    def small(self) -> bool:
        """Whether the calls were small against the limit: its end is then many calls away."""
        return self.calls > 0 and SMALL * max(self.used / self.calls, self.needed) <= self.run.limit

    @property
    def past(self) -> int:
        """By how many tokens the limit was overrun."""
        return max(self.used - self.run.limit, 0)


class Biller:
    """A provider that bills by recorded counts, and the load that is put on it."""

    name = "biller"

    def __init__(self, run: Run, seed: int) -> None:
        self._run = run
        self._random = random.Random(seed)
        place = TOKENIZERS.index(run.tokenizer)
        texts = RECORDED["texts"]
        self._counts = {one["text"]: one["tokens"][place] for one in texts}
        self._pool = [one["text"] for one in texts if one["kind"] in LOADS[run.load]]
        english = [one["text"] for one in texts if one["kind"] == "english"]
        self._other = sum(self._counts[text] for text in english) / sum(
            map(typical_of_text, english)
        )
        self.answer = 0
        self.used = 0
        self.seen: ModelRequest | None = None

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name="*")]

    @hookimpl
    def before_model_call(self, request: ModelRequest) -> None:
        self.seen = request

    def text(self, tokens: float) -> str:
        """Return recorded texts of about so many tokens."""
        found: list[str] = []
        left = tokens
        while left > 0 or not found:
            found.append(self._random.choice(self._pool))
            left -= self._counts[found[-1]] + 1
        return BETWEEN.join(found)

    def message(self) -> str:
        """Return the next message, and settle how long its answer would be."""
        size = self._run.size * self._random.uniform(0.5, 1.5)
        self.answer = min(max(int(size * self._random.uniform(0.1, 0.4)), 5), MOST_OUTPUT)
        return self.text(size - self.answer)

    def count(self, text: str) -> int:
        """Return the tokens of a text, as recorded where it is one of the known."""
        return sum(
            self._counts.get(piece) or round(typical_of_text(piece) * self._other)
            for piece in text.split(BETWEEN)
        ) + text.count(BETWEEN)

    def bill(self, request: ModelRequest) -> int:
        """Return the tokens of a request."""
        texts = [piece.text for piece in request.system]
        texts += [message.text for message in request.messages]
        texts += [tool.declaration for tool in request.tools]
        return 3 + sum(4 + self.count(text) for text in texts)

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        del turn
        written = min(self.answer, request.max_output_tokens)
        text = self.text(written)
        yield TextDelta(text[: max(len(text) * written // max(self.count(text), 1), 1)])
        usage = Usage(input_tokens=self.bill(request), output_tokens=written)
        self.used += usage.total
        yield UsageEvent(usage)
        yield StopEvent("end" if written == self.answer else "max_tokens")


async def measured(run: Run, *, seed: int = 1) -> Found:
    """Send messages into one session until one is refused."""
    biller = Biller(run, seed)
    lowered = calls = 0

    def sink(event: Event) -> None:
        nonlocal lowered
        lowered += event.type == "output_limited"

    section: dict[str, Any] = {
        "log": {"level": "error"},
        "context": {"budget_tokens": 60_000, "history_turns": run.history},
        "agents": {"main": {"max_output_tokens": MOST_OUTPUT}},
        "plugin": {
            "metering": {"budgets": {"one": {"scope": "session", "tokens": run.limit}}},
            "embedding": {"embedder": "none"},
        },
    }
    with tempfile.TemporaryDirectory() as home:
        disabled = [name for name in BUILTIN if name not in NEEDED] if run.bare else []
        async with started(
            biller, home=Path(home), model=biller, disabled=disabled, **section
        ) as gateway:
            while calls < MOST_TURNS:
                turn = await gateway.chat(biller.message(), sink=sink)
                if turn.ending != "done":
                    break
                calls += 1
    assert biller.seen is not None
    assert turn.error is None or turn.error.code == "budget_exceeded", turn.error
    needed = biller.bill(biller.seen) + biller.answer if turn.ending != "done" else 0
    return Found(run=run, calls=calls, used=biller.used, needed=needed, lowered=lowered)


QUICK = (
    Run(tokenizer="o200k", load="english", size=400, limit=10_000, bare=True),
    Run(tokenizer="anthropic", load="mixed", size=1_000, limit=20_000),
    Run(tokenizer="deepseek", load="indic", size=800, limit=20_000, history=3),
)
ALL = (
    *QUICK,
    *(
        Run(tokenizer=tokenizer, load=load, size=size, limit=limit, history=history, bare=bare)
        for tokenizer in TOKENIZERS
        for load, size, limit, history, bare in (
            ("english", 50, 10_000, 0, True),
            ("mixed", 400, 10_000, 0, True),
            ("mixed", 400, 50_000, 0, False),
            ("chinese", 1_000, 20_000, 0, True),
            ("european", 1_000, 100_000, 5, False),
            ("indic", 3_000, 100_000, 0, True),
            ("mixed", 10_000, 100_000, 0, False),
            ("mixed", 10_000, 1_000_000, 0, False),
        )
    ),
)


async def main(runs: Sequence[Run]) -> None:
    """Print what each run has come to, and the worst of them."""
    found = []
    for run in runs:
        one = await measured(run)
        found.append(one)
        print(
            f"{run.tokenizer:10} {run.load:9} {run.size:6} of {run.limit:9,}, "
            f"history {run.history}: {one.calls:4} calls, used {one.share:6.1%}, "
            f"usable {one.usable:6.1%}, past {one.past}, lowered {one.lowered}",
            flush=True,
        )
    small = [one for one in found if one.small]
    report(
        "room in a budget",
        [
            Figure(
                name=f"least used before a refusal, of {len(small)} whose calls are small",
                value=min(one.share for one in small),
                unit="of the limit",
                goal=0.9,
                at_least=True,
            ),
            Figure(
                name=f"least usable before a refusal, of all {len(found)}",
                value=min(one.usable for one in found),
                unit="of the limit",
                goal=0.9,
                at_least=True,
            ),
            Figure(
                name="furthest past a limit",
                value=max(one.past for one in found),
                unit="tokens",
                goal=0,
            ),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three runs only")
    asyncio.run(main(QUICK if parser.parse_args().quick else ALL))

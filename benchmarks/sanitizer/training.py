"""Train the model of the plugin ``sanitizer``, and write its weights.

    python -m benchmarks.sanitizer.training --items ITEMS.jsonl.gz --tools FOLDER [--out FILE.npz]

What is to be found are made-up orders, put together from the parts of ``orders.toml`` or written
by hand (``texts/orders.jsonl``); more than half of them have typos. What is not are the benign
texts of ITEMS, descriptions of tools (``FOLDER/SET/tools.jsonl.gz``, a line each with a
``description``), honest texts that come close (``texts/honest.jsonl``), and capabilities of
hookgate (``texts/capabilities.jsonl``). No real attack takes part, so that all are left to judge
by.

A line of ITEMS is ``{"id", "text", "label", "source"}``. The same texts give the same weights.

The weights are those of a logistic regression over hashed pieces of text and sets of classes of
words, by Adam over all of them
at once (Kingma and Ba, 2015).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.sanitizer._orders import GRAMMAR, misspelt_at_times, orders
from hookgate.builtin_plugins.sanitizer.classes import SETS, WORDS, held, masks_of
from hookgate.builtin_plugins.sanitizer.model import (
    BITS,
    WEIGHTS,
    ModelWeights,
    pieces_of,
    units_of,
)
from hookgate.builtin_plugins.sanitizer.text import fold

ORDERS = 18_000
SEED = 5
WRITTEN = 6
"""So often an order or an honest text that was written by hand takes part."""
QUOTED = re.compile("[\"'`“|>]")
"""An honest text quotes orders; the quotations are none of what is honest in it."""
TEXTS = Path(__file__).with_name("texts")
"""What is trained on beside ITEMS. ``capabilities.jsonl`` are those that came with hookgate at one
time: they speak to models a good deal, and give no orders. They do not change with those that come
with it now, so that the weights can be made again."""
LEAST = 40
"""As that of the model, and less: an order of few words is learnt from as one of more."""
STEPS = 80
RATE = 0.08
DECAY = 0.3
"""What half of the squares of all weights costs, against the loss of all windows."""
COMPANY = 3.0
"""As `DECAY`, for the classes of words: there are few of them, and each counts in many windows."""
KEPT = 256
"""So many sets of classes keep their weight: those that say most, over all windows."""
ORDERS_WEIGH = 0.1
"""All orders together count so much against all that is benign."""
SIDE = 160
"""Characters of a benign unit that stands beside an order."""

DESCRIPTIONS = 2_000
"""So many descriptions of tools of each set take part: the greatest would outweigh the others."""

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def read(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def descriptions(folder: Path, without: Collection[str] = ()) -> list[str]:
    """Return what tools of the sets in a folder say of themselves.

    Args:
        folder: It has a folder for each set, with ``tools.jsonl.gz``.
        without: Sets that are left out.
    """
    chance = random.Random(SEED)
    found: list[str] = []
    for path in sorted(folder.glob("*/tools.jsonl.gz")):
        if path.parent.name not in without:
            said = [str(tool["description"]) for tool in read(path)]
            found += chance.sample(said, min(DESCRIPTIONS, len(said)))
    return found


class Examples:
    """Windows of one or more units side by side, each of them an order or none.

    The pieces of a unit are kept once, in however many windows it stands.
    """

    def __init__(self) -> None:
        self.units = 0
        self.pieces: list[tuple[Places, Places]] = []
        self.masks: list[Places] = []
        self.windows: list[tuple[int, int, bool, int]] = []
        """First unit, the one behind the last, whether it is an order, how often it counts."""

    def add(
        self, units: list[str], windows: Iterable[tuple[int, int]], wanted: bool, times: int
    ) -> None:
        """Take windows of some units, as numbers of the first and the one behind the last."""
        read = pieces_of(units)
        self.pieces.append((read.places, read.unit + self.units))
        self.masks.append(masks_of(read.words, len(units)))
        self.windows += [
            (self.units + first, self.units + behind, wanted, times) for first, behind in windows
        ]
        self.units += len(units)

    def benign(self, texts: Sequence[str], times: int = 1, quoting: bool = True) -> None:
        """Take each unit of texts, alone and with its neighbour."""
        for text in texts:
            units = plain_units(text)
            quoted = [not quoting and bool(QUOTED.search(unit)) for unit in units]
            spans = [(at, at + wide) for wide in (1, 2) for at in range(len(units) - wide + 1)]
            self.add(units, (span for span in spans if not any(quoted[slice(*span)])), False, times)

    def order(self, text: str, beside: str, lot: float) -> None:
        """Take an order, alone or beside something benign."""
        units = plain_units(text)
        units = units if lot < 0.4 else [beside, *units] if lot < 0.7 else [*units, beside]
        self.add(units, [(0, len(units))], True, 1)


def plain_units(text: str) -> list[str]:
    plain = fold(text).text
    return [plain[start:end] for start, end in units_of(plain)]


def examples(texts: Sequence[str]) -> Examples:
    """Return benign windows of `texts`, and orders alone and beside benign units."""
    chance = random.Random(SEED)
    made = Examples()
    made.benign(texts)
    made.benign(written("honest"), WRITTEN, quoting=False)
    made.benign(written("capabilities"), WRITTEN, quoting=False)
    around = [unit[-SIDE:] for text in texts for unit in plain_units(text)]
    by_hand = [misspelt_at_times(text, chance) for text in WRITTEN * written("orders")]
    for text in orders(ORDERS, SEED) + by_hand:
        made.order(text, chance.choice(around), chance.random())
    return made


def digest() -> str:
    """Return the SHA-256 of all that the weights are made from beside ITEMS."""
    paths = [GRAMMAR, *sorted(TEXTS.glob("*.jsonl"))]
    classes = repr(WORDS).encode()
    return sha256(b"".join([classes, *(path.read_bytes() for path in paths)])).hexdigest()


def written(name: str) -> list[str]:
    """Return texts of one file of `TEXTS`."""
    return [item["text"] for item in read(TEXTS / f"{name}.jsonl")]


def train(texts: Sequence[str]) -> ModelWeights:
    """Return the weights that tell orders from `texts`."""
    given = examples(texts)
    places, unit = (np.concatenate(part) for part in zip(*given.pieces, strict=True))
    first, behind, wanted, weigh = (np.array(part) for part in zip(*given.windows, strict=True))
    share = ORDERS_WEIGH * weigh[~wanted].sum() / weigh[wanted].sum()
    weigh = np.where(wanted, share, weigh)

    def over_windows(of_units: Floats) -> Floats:
        until = np.append(0.0, np.cumsum(of_units))
        sums: Floats = until[behind] - until[first]
        return sums

    counts = np.bincount(unit, minlength=given.units).astype(np.float64)
    root = np.sqrt(np.maximum(over_windows(counts), LEAST))
    masks = np.concatenate(given.masks)
    together = np.bitwise_or.reduceat(np.append(masks, 0), np.stack([first, behind], 1).ravel())[
        ::2
    ]
    distinct, of = np.unique(together, return_inverse=True)
    holds = held(distinct, SETS).astype(np.float64)
    size = 1 << BITS
    # Behind the pieces stand the classes, and last the bias; no window divides those, and nothing
    # pulls the bias to zero.
    last = size + len(SETS)
    made, mean, spread = np.zeros(last + 1), np.zeros(last + 1), np.zeros(last + 1)
    made[last] = -2.0
    slope = np.empty(last + 1)
    for step in range(1, STEPS + 1):
        sums = over_windows(np.bincount(unit, made[places], given.units).astype(np.float64))
        company = (holds @ made[size:last])[of]
        off = (1 / (1 + np.exp(-sums / root - company - made[last])) - wanted) * weigh
        # What each window pulls at its units, from the first one to the last.
        pull = np.bincount(first, off / root, given.units + 1)
        pull = np.cumsum(pull - np.bincount(behind, off / root, given.units + 1))
        slope[:size] = np.bincount(places, pull[unit], size)
        slope[:size] += DECAY * made[:size]
        slope[size:last] = np.bincount(of, off, len(distinct)) @ holds + COMPANY * made[size:last]
        slope[last] = off.sum()
        mean = 0.9 * mean + 0.1 * slope
        spread = 0.98 * spread + 0.02 * slope * slope
        rate = RATE * (1 if step < 0.6 * STEPS else 0.3 if step < 0.85 * STEPS else 0.1)
        ahead = mean / (1 - 0.9**step)
        made -= rate * ahead / (np.sqrt(spread / (1 - 0.98**step)) + 1e-8)
    scale = float(np.abs(made[:size]).max() / 127)
    table = np.rint(made[:size] / scale).astype(np.int8)
    company = made[size:last]
    often = np.bincount(of, weigh, len(distinct)) @ holds
    least = np.sort(np.abs(company) * np.sqrt(often))[-KEPT]
    kept = np.abs(company) * np.sqrt(often) >= least
    return ModelWeights(table, scale, float(made[last]), SETS[kept], company[kept])


def command() -> None:
    # Not `main`: it is no benchmark, and `python -m benchmarks` runs each module that has one.
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sanitizer.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--items", type=Path, required=True, help="texts; the benign ones are read")
    parser.add_argument("--tools", type=Path, required=True, help="a folder of sets of tools")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    chosen = parser.parse_args()
    texts = [item["text"] for item in read(chosen.items) if item["label"] == "benign"]
    texts += descriptions(chosen.tools)
    made = train(texts)
    np.savez_compressed(
        chosen.out,
        table=made.table,
        scale=made.scale,
        bias=made.bias,
        sets=made.sets,
        company=made.company.astype(np.float32),
        texts=digest(),
    )
    print(f"{chosen.out}: {chosen.out.stat().st_size:,} bytes, from {len(texts):,} benign texts")


if __name__ == "__main__":
    command()

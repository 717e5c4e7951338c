"""Train the model of the plugin ``sanitizer``, and write its weights.

    python -m benchmarks.train_sanitizer --items ITEMS.jsonl.gz [--out weights.npz]

What is to be found are made-up orders, put together from the parts of ``orders.toml`` or written
by hand (``texts/orders.jsonl``). What is not are the benign texts of ITEMS, honest texts that come
close (``texts/honest.jsonl``), and what hookgate says of itself. No real attack takes part, so that
all of them are left to judge by.

A line of ITEMS is ``{"id", "text", "label", "source"}``. The same texts give the same weights.

The weights are those of a logistic regression over hashed pieces of text, by Adam over all of them
at once (Kingma and Ba, 2015).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._orders import orders
from hookgate.builtin_plugins.sanitizer.model import (
    BITS,
    LEAST,
    WEIGHTS,
    Weights,
    pieces_of,
    units_of,
)
from hookgate.builtin_plugins.sanitizer.normalise import fold

ORDERS = 9000
SEED = 5
WRITTEN = 6
"""So often an order or an honest text that was written by hand takes part."""
QUOTED = re.compile("[\"'`“|>]")
"""An honest text quotes orders; the quotations are none of what is honest in it."""
HERE = Path(__file__).parent.parent
TEXTS = HERE / "benchmarks" / "texts"
OWN = (
    "docs/**/*.md",
    *(WRITTEN * ("capabilities/**/*.md", "builtin_plugins/*/capabilities/**/*.md")),
)
"""What hookgate says of itself speaks to models a good deal, and gives no orders."""
STEPS = 80
RATE = 0.08
DECAY = 0.1
"""What half of the squares of all weights costs, against the loss of all windows."""
ORDERS_WEIGH = 0.1
"""All orders together count so much against all that is benign."""
MOST_BENIGN = 60_000
"""Benign windows that are trained on, chosen by lot."""
SIDE = 160
"""Characters of a benign unit that stands beside an order."""

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def read(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@dataclass
class Examples:
    """Windows: the pieces of each, one after the other, and whether it is an order."""

    places: Places
    window: Places
    wanted: npt.NDArray[np.bool_]


def benign_windows(texts: Sequence[str]) -> list[list[str]]:
    """Return the units of texts, each alone and with its neighbour."""
    windows: list[list[str]] = []
    for text in texts:
        plain = fold(text).text
        units = [plain[start:end] for start, end in units_of(plain)]
        windows += [[unit] for unit in units]
        windows += [list(pair) for pair in pairwise(units)]
    return windows


def examples(texts: Sequence[str]) -> Examples:
    """Return benign windows of `texts`, and orders alone and beside benign units."""
    chance = random.Random(SEED)
    benign = benign_windows(texts)
    chance.shuffle(benign)
    benign = benign[:MOST_BENIGN]
    windows = benign + WRITTEN * unquoted(written("honest")) + unquoted(own())
    wanted = [False] * len(windows)
    for order in orders(ORDERS, SEED) + WRITTEN * written("orders"):
        plain = fold(order).text
        units = [plain[start:end] for start, end in units_of(plain)]
        beside = chance.choice(benign)[0][-SIDE:]
        lot = chance.random()
        windows.append(units if lot < 0.4 else [beside, *units] if lot < 0.7 else [*units, beside])
        wanted.append(True)
    parts = [pieces_of(window) for window in windows]
    return Examples(
        np.concatenate([part.places for part in parts]),
        np.repeat(np.arange(len(parts)), [len(part.places) for part in parts]),
        np.array(wanted),
    )


def unquoted(texts: Sequence[str]) -> list[list[str]]:
    """Return the windows of texts in which nothing is quoted."""
    return [window for window in benign_windows(texts) if not QUOTED.search("".join(window))]


def own() -> list[str]:
    """Return what hookgate says of itself."""
    paths = [path for name in OWN for path in sorted(HERE.glob(name))]
    return [path.read_text(encoding="utf-8") for path in paths]


def written(name: str) -> list[str]:
    """Return texts that were written by hand."""
    return [item["text"] for item in read(TEXTS / f"{name}.jsonl")]


def train(texts: Sequence[str]) -> Weights:
    """Return the weights that tell orders from `texts`."""
    given = examples(texts)
    count = len(given.wanted)
    root = np.sqrt(np.maximum(np.bincount(given.window, minlength=count), LEAST))
    share = ORDERS_WEIGH * (count - given.wanted.sum()) / given.wanted.sum()
    weigh = np.where(given.wanted, share, 1.0)
    size = 1 << BITS
    # The last number is the bias, which no window divides and nothing pulls to zero.
    made, mean, spread = np.zeros(size + 1), np.zeros(size + 1), np.zeros(size + 1)
    made[size] = -2.0
    slope = np.empty(size + 1)
    for step in range(1, STEPS + 1):
        logit = np.bincount(given.window, made[given.places], count) / root + made[size]
        off = (1 / (1 + np.exp(-logit)) - given.wanted) * weigh
        slope[:size] = np.bincount(given.places, (off / root)[given.window], size)
        slope[:size] += DECAY * made[:size]
        slope[size] = off.sum()
        mean = 0.9 * mean + 0.1 * slope
        spread = 0.98 * spread + 0.02 * slope * slope
        rate = RATE * (1 if step < 0.6 * STEPS else 0.3 if step < 0.85 * STEPS else 0.1)
        ahead = mean / (1 - 0.9**step)
        made -= rate * ahead / (np.sqrt(spread / (1 - 0.98**step)) + 1e-8)
    scale = float(np.abs(made[:size]).max() / 127)
    table = np.rint(made[:size] / scale).astype(np.int8)
    return Weights(table, scale, float(made[size]))


def command() -> None:
    # Not `main`: it is no benchmark, and `python -m benchmarks` runs each module that has one.
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train_sanitizer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--items", type=Path, required=True, help="texts; the benign ones are read")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    chosen = parser.parse_args()
    texts = [item["text"] for item in read(chosen.items) if item["label"] == "benign"]
    made = train(texts)
    np.savez_compressed(chosen.out, table=made.table, scale=made.scale, bias=made.bias)
    print(f"{chosen.out}: {chosen.out.stat().st_size:,} bytes, from {len(texts):,} benign texts")


if __name__ == "__main__":
    command()

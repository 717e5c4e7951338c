"""Train the model of the plugin ``sanitizer``, and write its weights.

    python -m benchmarks.sanitizer.training --items ITEMS.jsonl.gz --tools FOLDER --skills FOLDER

What is to be found are made-up orders, put together from the parts of ``orders.toml`` and
``steps.toml`` or written by hand (``texts/orders.jsonl``); more than half of them have typos. What
is not are the benign texts of ITEMS, descriptions of tools (``TOOLS/SET/tools.jsonl.gz``, a line
each with a ``description``), skills as they are published (``SKILLS/REPOSITORY/**/SKILL.md``),
honest texts that come close (``texts/honest.jsonl``), steps of honest guides
(``texts/guides.jsonl``), and capabilities of hookgate (``texts/capabilities.jsonl``). No real
attack takes part, so that all are left to judge by.

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
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.sanitizer._orders import GRAMMAR, STEPS_OF_GUIDES, misspelt_at_times, orders
from hookgate.builtin_plugins.sanitizer.model import (
    BITS,
    SETS,
    WEIGHTS,
    WORDS,
    ModelWeights,
    held,
    masks_of,
    pieces_of,
    units_of,
)
from hookgate.builtin_plugins.sanitizer.text import fold

ORDERS = 18_000
POSING = 12_000
"""So many orders pose as steps of a guide."""
SEED = 5
WRITTEN = 6
"""So often an order or an honest text that was written by hand takes part."""
QUOTED = re.compile("[\"'`“|>]")
"""An honest text quotes orders; the quotations are none of what is honest in it."""
_SAYS = re.compile(r"^description: *(\S.{20,})$", re.MULTILINE)
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
AT_FIRST = 3
"""At first one in so many benign windows is looked at, and counts for all."""
LOOKS = (16, 32, 50)
"""At these steps all windows are looked at, and most of those that are easy are left out."""
EASY, ONE_IN = -3.3, 4
"""A benign window with a lower score is easy; one in so many is looked at, and counts for all."""
NEIGHBOURS = 64
"""So many units side by side are looked at together, or left out."""
KEPT = 256
"""So many sets of classes keep their weight: those that say most, over all windows."""
ORDERS_WEIGH = 0.15
"""All orders together count so much against all that is benign."""
SIDE = 160
"""Characters of a benign unit that stands beside an order."""

DESCRIPTIONS = 2_000
"""So many descriptions of tools of each set take part: the greatest would outweigh the others."""
SKILLS = 150
"""So many skills of each repository take part."""
BEGINNING = 12_000
"""So many characters of each."""

SIZE = 1 << BITS

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


def skills(folder: Path) -> list[str]:
    """Return skills of the repositories in a folder, and what they say of themselves.

    Args:
        folder: It has a folder for each repository.
    """
    found: dict[str, None] = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(place.rglob("SKILL.md"), key=lambda path: _lot(path.relative_to(place)))
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in files[:SKILLS]]
        said = [line[1].strip("\"'") for text in texts for line in _SAYS.finditer(text[:2_000])]
        found |= dict.fromkeys(text[:BEGINNING] for text in [*texts, *said])
    return list(found)


def _lot(path: Path) -> str:
    return sha256(path.as_posix().encode()).hexdigest()


@dataclass(frozen=True)
class Texts:
    """What stands in the units of all texts.

    Attributes:
        places: The place in the table of each piece.
        unit: The unit that it stands in.
        masks: The classes of the words of each unit.
    """

    places: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]
    masks: Places


class Examples:
    """Windows of one or more units side by side, each of them an order or none.

    The pieces of a unit are kept once, in however many windows it stands.
    """

    def __init__(self) -> None:
        self.units = 0
        self.pieces: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]] = []
        self.masks: list[Places] = []
        self.windows: list[tuple[int, int, bool, int]] = []
        """First unit, the one behind the last, whether it is an order, how often it counts."""

    def add(
        self, units: list[str], windows: Iterable[tuple[int, int]], wanted: bool, times: int
    ) -> None:
        """Take windows of some units, as numbers of the first and the one behind the last."""
        read = pieces_of(units)
        unit = (read.unit + self.units).astype(np.int32)
        self.pieces.append((read.places.astype(np.int32), unit))
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

    def texts(self) -> Texts:
        """Return what stands in the units."""
        places, unit = (np.concatenate(part) for part in zip(*self.pieces, strict=True))
        return Texts(places, unit, np.concatenate(self.masks))

    def weighed(self) -> Windows:
        """Return the windows; all orders together count as `ORDERS_WEIGH` says."""
        parts = (np.array(part) for part in zip(*self.windows, strict=True))
        first, behind, wanted, times = parts
        share = ORDERS_WEIGH * times[~wanted].sum() / times[wanted].sum()
        return Windows(first, behind, wanted, np.where(wanted, share * times, times))


def plain_units(text: str) -> list[str]:
    plain = fold(text).text
    return [plain[start:end] for start, end in units_of(plain)]


def examples_of(texts: Sequence[str]) -> Examples:
    """Return benign windows of `texts`, and orders alone and beside benign units."""
    chance = random.Random(SEED)
    made = Examples()
    made.benign(texts)
    made.benign(written("honest"), WRITTEN, quoting=False)
    made.benign(written("capabilities"), WRITTEN, quoting=False)
    made.benign(written("guides"), WRITTEN)
    around = [unit[-SIDE:] for text in texts for unit in plain_units(text)]
    by_hand = [misspelt_at_times(text, chance) for text in WRITTEN * written("orders")]
    for text in orders(ORDERS, SEED) + orders(POSING, SEED, STEPS_OF_GUIDES) + by_hand:
        made.order(text, chance.choice(around), chance.random())
    return made


def digest() -> str:
    """Return the SHA-256 of all that the weights are made from beside ITEMS."""
    paths = [GRAMMAR, STEPS_OF_GUIDES, *sorted(TEXTS.glob("*.jsonl"))]
    classes = repr(WORDS).encode()
    return sha256(b"".join([classes, *(path.read_bytes() for path in paths)])).hexdigest()


def written(name: str) -> list[str]:
    """Return texts of one file of `TEXTS`."""
    return [item["text"] for item in read(TEXTS / f"{name}.jsonl")]


@dataclass(frozen=True)
class Windows:
    """Windows to learn from.

    Attributes:
        first: The first unit of each.
        behind: The unit behind its last one.
        wanted: Whether it is an order.
        weigh: How much it counts.
    """

    first: Places
    behind: Places
    wanted: npt.NDArray[np.bool_]
    weigh: Floats

    def drawn(self, easy: npt.NDArray[np.bool_], one_in: int) -> Windows:
        """Return all windows but those that are easy, and of those some, which count for all."""
        kept = ~easy | (self.first // NEIGHBOURS % one_in == 0)
        weigh = np.where(easy, one_in * self.weigh, self.weigh)
        return Windows(self.first[kept], self.behind[kept], self.wanted[kept], weigh[kept])


class Slope:
    """What some windows pull at the weights.

    Weights stand in one row: those of pieces, behind them those of sets of classes, and last the
    bias.
    """

    def __init__(self, given: Texts, windows: Windows) -> None:
        self.windows = windows
        self.units = len(given.masks)
        reach = np.bincount(windows.first, minlength=self.units + 1)
        reach = np.cumsum(reach - np.bincount(windows.behind, minlength=self.units + 1))
        seen = (reach > 0)[given.unit]
        self.places, self.unit = given.places[seen], given.unit[seen]
        counts = np.bincount(self.unit, minlength=self.units).astype(np.float64)
        self.root = np.sqrt(np.maximum(self._over(counts), LEAST))
        ends = np.stack([windows.first, windows.behind], 1).ravel()
        together = np.bitwise_or.reduceat(np.append(given.masks, 0), ends)[::2]
        distinct, self.of = np.unique(together, return_inverse=True)
        self.holds = held(distinct, SETS).astype(np.float64)

    def scores(self, made: Floats) -> Floats:
        """Return the score of each window."""
        of_units = np.bincount(self.unit, made[self.places], self.units)
        sums = self._over(of_units.astype(np.float64, copy=False))
        scores: Floats = sums / self.root + (self.holds @ made[SIZE:-1])[self.of] + made[-1]
        return scores

    def at(self, made: Floats) -> Floats:
        """Return the slope of the loss at some weights."""
        windows = self.windows
        off = (1 / (1 + np.exp(-self.scores(made))) - windows.wanted) * windows.weigh
        # What each window pulls at its units, from the first one to the last.
        pull = np.bincount(windows.first, off / self.root, self.units + 1)
        pull = np.cumsum(pull - np.bincount(windows.behind, off / self.root, self.units + 1))
        # No window divides what classes weigh and the bias, and nothing pulls that to zero.
        return np.concatenate(
            [
                np.bincount(self.places, pull[self.unit], SIZE) + DECAY * made[:SIZE],
                self._of_sets(off) + COMPANY * made[SIZE:-1],
                [off.sum()],
            ]
        )

    def often(self) -> Floats:
        """Return how much the windows count that hold each set of classes."""
        return self._of_sets(self.windows.weigh)

    def _of_sets(self, of_windows: Floats) -> Floats:
        sums: Floats = np.bincount(self.of, of_windows, len(self.holds)) @ self.holds
        return sums

    def _over(self, of_units: Floats) -> Floats:
        until = np.append(0.0, np.cumsum(of_units))
        sums: Floats = until[self.windows.behind] - until[self.windows.first]
        return sums


def train(texts: Sequence[str]) -> ModelWeights:
    """Return the weights that tell orders from `texts`."""
    examples = examples_of(texts)
    given, windows = examples.texts(), examples.weighed()
    whole = Slope(given, windows)
    made = np.zeros(SIZE + len(SETS) + 1)
    mean, spread = np.zeros_like(made), np.zeros_like(made)
    made[-1] = -2.0
    # Most of what is benign is told from an order soon, and says little from then on.
    slope = Slope(given, windows.drawn(~windows.wanted, AT_FIRST))
    for step in range(1, STEPS + 1):
        if step in LOOKS:
            easy = ~windows.wanted & (whole.scores(made) < EASY)
            slope = Slope(given, windows.drawn(easy, ONE_IN))
        pull = slope.at(made)
        mean = 0.9 * mean + 0.1 * pull
        spread = 0.98 * spread + 0.02 * pull * pull
        rate = RATE * (1 if step < 0.6 * STEPS else 0.3 if step < 0.85 * STEPS else 0.1)
        ahead = mean / (1 - 0.9**step)
        made -= rate * ahead / (np.sqrt(spread / (1 - 0.98**step)) + 1e-8)
    scale = float(np.abs(made[:SIZE]).max() / 127)
    table = np.rint(made[:SIZE] / scale).astype(np.int8)
    company = made[SIZE:-1]
    strength = np.abs(company) * np.sqrt(whole.often())
    kept = strength >= np.sort(strength)[-KEPT]
    return ModelWeights(table, scale, float(made[-1]), SETS[kept], company[kept])


def command() -> None:
    # Not `main`: it is no benchmark, and `python -m benchmarks` runs each module that has one.
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sanitizer.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--items", type=Path, required=True, help="texts; the benign ones are read")
    parser.add_argument("--tools", type=Path, required=True, help="a folder of sets of tools")
    parser.add_argument("--skills", type=Path, required=True, help="a folder of repositories")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    chosen = parser.parse_args()
    texts = [item["text"] for item in read(chosen.items) if item["label"] == "benign"]
    texts += descriptions(chosen.tools) + skills(chosen.skills)
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

"""Each process of the unit tests collects a share of the files, and runs what it has collected.

pytest-xdist has every process collect all tests, which is a tenth of what the unit tests take. With
``--dist each`` it has a process run whatever that process has collected.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PROCESSES = 2
"""For each core: tests wait for sockets, threads and processes for as long as they compute."""

LONGER = {"integration": 3, "cli": 2}
"""Folders whose files take so many times as long as others of their size: gateways, processes."""

SHARE = pytest.StashKey[frozenset[Path]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return how many processes there are; None where each collects everything."""
    return PROCESSES * (os.cpu_count() or 1) if config.getoption("dist") == "each" else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process which share is its own."""
    if node.config.getoption("dist") == "each":
        number, count = node.workerinput["workerid"].removeprefix("gw"), len(node.config.option.tx)
        node.workerinput["share"] = int(number), count


class Progress:
    """Says how far all processes are: pytest-xdist takes the tests of one for those of all."""

    total = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.total += len(ids)

    def pytest_runtest_logstart(self) -> None:
        self.session.testscollected = self.total


def pytest_configure(config: pytest.Config) -> None:
    """Take the share."""
    if config.getoption("dist", "no") == "each":
        config.pluginmanager.register(Progress())
    number, count = getattr(config, "workerinput", {}).get("share", (0, 1))
    if count > 1:
        share = shares(config.rootpath, config.args, count)[number]
        config.stash[SHARE] = share
        # A file that is named is collected without asking whether it is passed over.
        paths = {name: config.rootpath / name.partition("::")[0] for name in config.args}
        config.args = [name for name, path in paths.items() if path.is_dir() or path in share]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the files of others."""
    share = config.stash.get(SHARE, None)
    foreign = share is not None and collection_path.suffix == ".py" and collection_path not in share
    return True if foreign else None


def shares(root: Path, named: Sequence[str], count: int) -> list[frozenset[Path]]:
    """Return the test files below what is `named`, in shares that take about as long."""
    folders = [root / name.partition("::")[0] for name in named]
    files = {path for one in folders for path in (one, *one.rglob("test_*.py"))}
    weights = {path: weight(path, root) for path in files if path.suffix == ".py"}
    found: list[list[Path]] = [[] for _ in range(count)]
    sums = [0] * count
    for path in sorted(weights, key=lambda each: (-weights[each], each)):
        least = sums.index(min(sums))
        found[least].append(path)
        sums[least] += weights[path]
    return [frozenset(each) for each in found]


def weight(path: Path, root: Path) -> int:
    """Return how long a file of tests takes, by its size."""
    longer = [LONGER[part] for part in path.relative_to(root).parts if part in LONGER]
    return path.stat().st_size * max(longer, default=1)

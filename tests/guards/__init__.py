"""The guards of this product: what would be a hole if it were gone, and the test that says so.

Each ``*.toml`` of this folder lists guards of one part::

    [[guard]]
    holds = "what cannot happen while it is there"
    file = "core/gateway/access/auth.py"
    find = '''the text of the guard, which stands in the file once'''
    replace = '''what stands there when the guard is deleted'''
    test = "tests/core/gateway/test_auth.py::test_that_goes_red_without_it"

`tests/test_guards.py` holds that the lists are true of the tree. ``python -m tests.guards``
deletes each guard in a copy of the tree, and expects its test to go red.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Guard:
    """A guard.

    Attributes:
        holds: What cannot happen while it is there.
        file: Where it stands, from the root of the repository.
        find: Its text, which stands in the file once.
        replace: What stands there when it is deleted.
        test: The test that goes red then.
        part: The list that names it, and its place there, such as ``doors:3``.
    """

    holds: str
    file: str
    find: str
    replace: str
    test: str
    part: str

    @property
    def files(self) -> frozenset[str]:
        """The files that it rests on: its own, its test's, and the list that names it."""
        listed = f"tests/guards/{self.part.split(':')[0]}.toml"
        return frozenset((self.file, self.test.split("::")[0], listed))

    def deleted(self, root: Path) -> str:
        """Return the file's text without the guard.

        Raises:
            ValueError: The guard does not stand in the file once.
        """
        text = (root / self.file).read_text("utf-8")
        if (found := text.count(self.find)) != 1:
            raise ValueError(
                f"{self.part}: its text stands in {self.file} {found} times, expected once: "
                f"{self.find!r}"
            )
        return text.replace(self.find, self.replace)


def guards() -> Iterator[Guard]:
    """Yield all guards, list by list."""
    for path in sorted(HERE.glob("*.toml")):
        for number, row in enumerate(tomllib.loads(path.read_text("utf-8"))["guard"], 1):
            yield Guard(**row, part=f"{path.stem}:{number}")

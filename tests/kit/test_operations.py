"""Operations of an object: what declares none is told so, where it would bring nothing."""

from __future__ import annotations

import pytest

from hookgate import Empty, Invocation, StartError, operation, operations_of


class Lamps:
    """Lamps of the house."""

    @operation("lamps.dim")
    async def dim(self, _: Invocation, level: int) -> Empty:
        """Dim the lamps."""
        return Empty()


class Rooms(Lamps):
    """A class that has its operation from another one."""


def test_an_object_brings_what_it_declares() -> None:
    (made,) = operations_of(Lamps())
    assert (made.name, made.summary, made.group) == (
        "lamps.dim",
        "Dim the lamps.",
        "Lamps of the house.",
    )


@pytest.mark.parametrize("owner", [None, Rooms(), object()], ids=["none", "inherited", "object"])
def test_what_declares_no_operation_is_refused(owner: object) -> None:
    with pytest.raises(StartError, match="declares no operation"):
        operations_of(Lamps(), owner)

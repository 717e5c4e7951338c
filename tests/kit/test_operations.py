"""Operations of an object: what declares none is told so, and when the others are read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from tests.support.script import gateway, until

from hookgate import (
    Empty,
    Host,
    Invocation,
    Operation,
    Settings,
    StartError,
    operation,
    operations_of,
)
from hookgate.core.gateway.serve import serve
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.modules import on_demand

lamp_models: Any = on_demand("lamp_models")
"""Holds what an operation takes."""


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


class Bulbs:
    """Bulbs of the lamps."""

    @operation("bulbs.screw")
    async def screw(self, _: Invocation, bulb: lamp_models.Bulb) -> Empty:
        """Screw a bulb in."""
        return Empty()


class Brings:
    """Brings the operations of bulbs, and of lamps."""

    name = "brings"

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        return operations_of(Bulbs(), Lamps())


@pytest.fixture
def bulbs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module of what operations take, which can be loaded."""
    module = ModuleType("lamp_models")
    vars(module)["Bulb"] = type("Bulb", (Empty,), {"__module__": "lamp_models"})
    monkeypatch.setitem(sys.modules, "lamp_models", module)
    monkeypatch.setattr(vars(Bulbs)["screw"].operation, "known", None)
    yield
    vars(lamp_models).pop("Bulb", None)


@pytest.mark.usefixtures("bulbs")
async def test_an_operation_is_read_once_somebody_asks_what_it_takes() -> None:
    (made,) = operations_of(Bulbs())
    named = made.of("house")
    assert "Bulb" not in vars(lamp_models)
    assert (named.name, named.plugin, named.path) == ("bulbs.screw", "house", "/v1/bulbs/screw")

    assert named.params is sys.modules["lamp_models"].Bulb
    assert (named.summary, named.result) == ("Screw a bulb in.", Empty)
    assert await named.handler(None, named.params()) == Empty()  # type: ignore[arg-type]
    again = replace(named, plugin="garden").of("cellar")
    assert (again.plugin, again.params, again.group) == ("cellar", named.params, named.group)


async def test_an_operation_that_cannot_be_read_is_told_and_no_other_suffers() -> None:
    async with gateway(Brings()) as gate:
        await until(lambda: any(part.startswith("operation") for part in gate.host.degraded))
        await gate.read_operations()
        told = {part: why for part, why in gate.host.degraded.items() if "operation" in part}
        assert [*told] == ["operation bulbs.screw of brings"]
        (why,) = told.values()
        assert "No module named 'lamp_models'" in why
        with pytest.raises(StartError, match=r"bulbs\.screw: No module"):
            _ = gate.host.operations["bulbs.screw"].summary
        assert gate.host.operations["lamps.dim"].summary == "Dim the lamps."


@pytest.mark.usefixtures("bulbs")
async def test_operations_are_read_once_the_gateway_listens() -> None:
    settings = Settings.model_validate(
        {"gateway": {"port": 0, "limits": {"drain_wait_seconds": 0}}}
    )
    gate = Gateway(settings, builtin=(), plugins=[Brings()], listens=True)
    stop, before = asyncio.Event(), []
    async with gate:
        await asyncio.sleep(0)
        serving = asyncio.create_task(
            serve(
                gate,
                stop=stop,
                signals=False,
                started=lambda _: before.append("Bulb" in vars(lamp_models)),
            )
        )
        await until(lambda: "Bulb" in vars(lamp_models))
        stop.set()
        await serving
    assert before == [False]

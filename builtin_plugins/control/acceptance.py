"""Operations on what was accepted: tools, cards, plugins of the sandbox, by one word for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from hookgate import AUDIT, Invocation, Operation, OperationModel, TurnError
from hookgate.kit.acceptance.acceptances import acceptances_of
from hookgate.settings import redact_json


class KindParams(OperationModel):
    """What is wanted."""

    kind: str = Field(default="", max_length=32)
    """`tool`, `card` or `guest`; all of them without it."""


class AcceptanceRow(OperationModel):
    """One thing that somebody has accepted, or that waits for it."""

    kind: str
    name: str
    waits: bool
    """Whether it does not count as it is now."""
    why: str
    """Why it waits; empty where it does not."""
    digest: str
    """What it is now, where it waits: say it when you accept, and nothing else is accepted."""
    by: str
    """Who accepted it, or took that back; empty where it was the first of its name."""
    at: str
    """When, ISO 8601 in UTC; empty where nobody has."""


class AcceptanceRows(OperationModel):
    """What was accepted, and what waits."""

    things: tuple[AcceptanceRow, ...]
    problem: str
    """Why nothing that needs it counts; empty where it can be read."""


class ThingParams(OperationModel):
    """Which thing."""

    kind: str = Field(min_length=1, max_length=32)
    """`tool`, `card` or `guest`."""
    name: str = Field(min_length=1, max_length=256)
    """Its name."""


class GiveParams(ThingParams):
    """Which thing is accepted, as what."""

    digest: str = Field(default="", max_length=64)
    """Its digest as it was shown; refused where it is another by now. Guests need it."""


class Given(OperationModel):
    """What was accepted."""

    kind: str
    name: str


class TakenBack(OperationModel):
    """What was taken back."""

    taken: bool
    """False where it did not count."""


async def listed(invocation: Invocation, params: KindParams) -> AcceptanceRows:
    """Return what was accepted, and what waits."""
    book = await acceptances_of(invocation.host)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kind in book.kinds:
        for name, row in book.of(kind).items():
            rows[kind, name] = {"by": row.accepted_by, "at": row.changed}
    for kind, desk in book.desks.items():
        for waiting in desk.waiting():
            told = rows.setdefault((kind, waiting.name), {"by": "", "at": ""})
            told |= {"waits": True, "why": waiting.why, "digest": waiting.digest}
    usual = {"waits": False, "why": "", "digest": ""}
    things = [
        {"kind": kind, "name": name, **usual, **row}
        for (kind, name), row in sorted(rows.items())
        if params.kind in ("", kind)
    ]
    told = {"things": things, "problem": book.problem}
    return AcceptanceRows.model_validate(redact_json(invocation.host.secrets, told))


async def give(invocation: Invocation, params: GiveParams) -> Given:
    """Accept a thing as it is now."""
    book = await acceptances_of(invocation.host)
    desk = book.desks.get(params.kind)
    if desk is None:
        raise TurnError(
            f"found the kind {params.kind!r}, expected one of {', '.join(sorted(book.desks))}",
            code="invalid_params",
        )
    await desk.accept(params.name, by=invocation.principal.id, digest=params.digest)
    return Given(kind=params.kind, name=params.name)


async def forget(invocation: Invocation, params: ThingParams) -> TakenBack:
    """Take back that a thing was accepted: it waits until somebody accepts it again."""
    book, host = await acceptances_of(invocation.host), invocation.host
    by = invocation.principal.id
    taken = await book.take_back(params.kind, params.name, by=by)
    if taken:
        data = {"kind": params.kind, "name": params.name, "by": by}
        host.log.info("acceptance taken back", **data)
        if (audit := host.get(AUDIT)) is not None:
            await audit.append("acceptance_taken_back", data)
    return TakenBack(taken=taken)


def acceptance_operations() -> Sequence[Operation[Any, Any]]:
    """Return the operations."""
    return (
        Operation(
            name="acceptance.list",
            summary="List the tools, cards and guests that were accepted, and those that wait.",
            params=KindParams,
            result=AcceptanceRows,
            handler=listed,
            rest=("GET", "/v1/acceptance"),
            command="accept list",
        ),
        Operation(
            name="acceptance.give",
            summary="Accept a tool, a card or a guest as it is now.",
            params=GiveParams,
            result=Given,
            handler=give,
            scope="operate",
            rest=("POST", "/v1/acceptance/give"),
            command="accept give",
        ),
        Operation(
            name="acceptance.forget",
            summary="Take back that a tool, a card or a guest was accepted; it waits then.",
            params=ThingParams,
            result=TakenBack,
            handler=forget,
            scope="operate",
            rest=("POST", "/v1/acceptance/forget"),
            command="accept forget",
        ),
    )

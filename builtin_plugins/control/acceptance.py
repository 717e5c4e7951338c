"""What was accepted: tools, cards and plugins of the sandbox, by one word for all."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from hookgate import Invocation, OperationModel, TurnError, operation
from hookgate.kit.acceptance.acceptances import acceptances_of
from hookgate.kit.functions.operations import POSITIONAL

Kind = Annotated[str, Field(min_length=1, max_length=32)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


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


class Given(OperationModel):
    """What was accepted."""

    kind: str
    names: tuple[str, ...]


class TakenBack(OperationModel):
    """What was taken back."""

    taken: bool
    """False where it did not count."""


@operation("accept.list")
async def listed(
    invocation: Invocation, kind: Annotated[str, Field(max_length=32)] = ""
) -> AcceptanceRows:
    """List the tools, cards and guests that were accepted, and those that wait.

    Args:
        kind: `tool`, `card` or `guest`; all of them without it.
    """
    book = await acceptances_of(invocation.host)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    desks = {each: await desk.waiting() for each, desk in book.desks.items()}
    for each in book.kinds:
        for name, row in book.of(each).items():
            rows[each, name] = {"by": row.accepted_by, "at": row.changed}
    for each, subjects in desks.items():
        for waiting in subjects:
            told = rows.setdefault((each, waiting.name), {"by": "", "at": ""})
            told |= {"waits": True, "why": waiting.why, "digest": waiting.digest}
    usual = {"waits": False, "why": "", "digest": ""}
    things = [
        {"kind": each, "name": name, **usual, **row}
        for (each, name), row in sorted(rows.items())
        if kind in ("", each)
    ]
    return AcceptanceRows.model_validate({"things": things, "problem": book.problem})


@operation("accept.give", scope="operate")
async def give(
    invocation: Invocation,
    kind: Kind,
    name: Annotated[str, Field(max_length=256), POSITIONAL] = "",
    digest: Annotated[str, Field(max_length=64)] = "",
    all: bool = False,
) -> Given:
    """Accept a tool, a card or a guest as it is now.

    Args:
        kind: `tool`, `card` or `guest`.
        name: Its name.
        digest: Its digest as it was shown; refused where it is another by now. Guests need it.
        all: All tools or cards that wait, and no name.

    Examples:
        hookgate accept give tool weather
        hookgate accept give card --all
    """
    if bool(name) == all or (all and digest):
        raise TurnError.invalid(
            "found neither a name nor `all`, or both",
            "name one, with its digest if you like, or say `all`; `accept.list` names them",
        )
    book = await acceptances_of(invocation.host)
    desk = book.desks.get(kind)
    if desk is None:
        raise TurnError.invalid(
            f"found the kind {kind!r}, expected one of {', '.join(sorted(book.desks))}"
        )
    names = [name] if name else [waiting.name for waiting in await desk.waiting()]
    for one in names:
        await desk.accept(one, by=invocation.principal.id, digest=digest)
    return Given(kind=kind, names=tuple(names))


@operation("accept.forget", scope="operate")
async def forget(invocation: Invocation, kind: Kind, name: Name) -> TakenBack:
    """Take back that a tool, a card or a guest was accepted; it waits then.

    Args:
        kind: `tool`, `card` or `guest`.
        name: Its name.
    """
    book, host = await acceptances_of(invocation.host), invocation.host
    by = invocation.principal.id
    taken = await book.take_back(kind, name, by=by)
    if taken:
        data = {"kind": kind, "name": name, "by": by}
        host.log.info("acceptance taken back", **data)
        await host.record("acceptance_taken_back", **data)
    return TakenBack(taken=taken)

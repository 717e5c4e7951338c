"""The operations that show and erase what was learned from use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from hookgate import Invocation, Operation, OperationModel
from hookgate.settings import redact_json

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.learn.examples import Examples
    from hookgate.builtin_plugins.discovery.learn.view import Example


class ExamplesParams(OperationModel):
    """Which examples to show."""

    capability: str = Field(default="", max_length=256)
    """Those of one capability only, by its id."""
    scope: str = Field(default="", max_length=1000)
    """Those of one scope only, such as `principal:loopback`, `agent:main` or `gateway`."""
    text: str = Field(default="", max_length=500)
    """Only those that hold this text."""
    limit: int = Field(default=50, ge=1, le=1000)
    """So many at most, the most recently used first."""


class ExampleRow(OperationModel):
    """A query that a capability has answered well."""

    scope: str
    """Whose it is; it is used in no other scope."""
    capability: str
    """The id of the capability."""
    text: str
    """The query; secrets are masked."""
    count: int
    """How often it was used."""
    learned: str
    """When it was first used, ISO 8601 in UTC."""
    last_used: str
    """When it was last used."""


class ExampleRows(OperationModel):
    """What was learned from use."""

    examples: tuple[ExampleRow, ...]
    """The most recently used first."""
    total: int
    """How many fit, those past the limit included."""
    enabled: bool
    """Whether anything is learned."""
    durable: bool
    """Whether what is learned outlives the process."""


class ForgetParams(OperationModel):
    """Which examples to erase: those that fit everything that is given."""

    capability: str = Field(default="", max_length=256)
    """Those of one capability, by its id."""
    scope: str = Field(default="", max_length=1000)
    """Those of one scope, such as `principal:loopback`."""
    query: str = Field(default="", max_length=500)
    """Those with this text; case and white space do not matter."""
    all: bool = False
    """All of them, of every scope; given alone."""

    @model_validator(mode="after")
    def _says_which(self) -> ForgetParams:
        named = any((self.capability, self.scope, self.query))
        if named == self.all:
            found = "`all` beside a filter" if named else "neither a filter nor `all`"
            raise ValueError(
                f"found {found}, expected one of both: say which examples to erase by "
                "capability, scope or query, or erase all of them"
            )
        return self


class Forgotten(OperationModel):
    """What was erased."""

    forgotten: int
    """How many examples are gone."""


def example_operations(examples: Examples) -> Sequence[Operation[Any, Any]]:
    """Return the operations on `examples`."""

    async def listed(invocation: Invocation, params: ExamplesParams) -> ExampleRows:
        fits = examples.matching(
            scope=params.scope or None, capability=params.capability or None, text=params.text
        )
        rows = {"examples": [_row(example) for example in fits[: params.limit]]}
        # A secret may have become known after the query was kept.
        return ExampleRows.model_validate(
            {
                **redact_json(invocation.host.secrets, rows),
                "total": len(fits),
                "enabled": examples.enabled,
                "durable": examples.durable,
            }
        )

    async def forget(invocation: Invocation, params: ForgetParams) -> Forgotten:
        erased = await examples.forget(
            scope=params.scope or None,
            capability=params.capability or None,
            query=params.query or None,
        )
        return Forgotten(forgotten=erased)

    return (
        Operation(
            name="discovery.examples",
            summary="Show the queries that capabilities have answered well.",
            params=ExamplesParams,
            result=ExampleRows,
            handler=listed,
            scope="operate",
            command="examples list",
        ),
        Operation(
            name="discovery.forget",
            summary="Erase what was learned from use, by capability, scope or query, or all.",
            params=ForgetParams,
            result=Forgotten,
            handler=forget,
            scope="operate",
            command="examples forget",
        ),
    )


def _row(example: Example) -> dict[str, Any]:
    return {
        "scope": example.scope,
        "capability": example.capability,
        "text": example.text,
        "count": example.count,
        "learned": _when(example.learned),
        "last_used": _when(example.used),
    }


def _when(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="seconds")

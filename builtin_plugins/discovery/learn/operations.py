"""The operations that show and erase what was learned from use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from hookgate import Invocation, OperationModel, operation

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
    foreign: bool
    """Whether it was imported from somebody who is not trusted: it counts less until it was used
    well here."""


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


class ExampleExportParams(OperationModel):
    """Which examples to export."""

    scope: str = Field(default="", max_length=1000)
    """Those of one scope only, such as `principal:loopback`."""
    capability: str = Field(default="", max_length=256)
    """Those of one capability only, by its id."""
    after: str = Field(default="", max_length=64)
    """The `next` of a former answer."""
    limit: int = Field(default=1000, ge=1, le=5000)
    """So many at once."""


class ExportedExample(OperationModel):
    """An example as an import takes it: without whose it was and when."""

    capability: str = Field(max_length=256)
    """The id of the capability."""
    text: str = Field(max_length=2000)
    """The query."""
    count: int = Field(default=1, ge=1, le=1_000_000)
    """How often it was used."""


class ExportedExamples(OperationModel):
    """Examples, the least recently used first."""

    examples: tuple[ExportedExample, ...]
    next: str
    """What to give as `after` for more; empty at the end."""


class ExampleImportParams(OperationModel):
    """Examples of an export."""

    examples: tuple[ExportedExample, ...] = Field(max_length=5000)
    """The least recently used first."""
    scope: str = Field(default="", max_length=1000)
    """Whose they are to be, such as `principal:loopback`, `agent:main` or `gateway`; by itself,
    the scope in which your own turns learn with the default agent."""
    trusted: bool = False
    """Whether you know who wrote them. Others count less, until one is used well here."""


class ImportedExamples(OperationModel):
    """What became of them."""

    new: int
    """How many were added, and are within the bounds."""
    known: int
    """How many were there already, and stay as they are."""
    left_out: int
    """How many hold a secret, are too long, or are no text that is kept."""


class ForgetExamplesParams(OperationModel):
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
    def _says_which(self) -> ForgetExamplesParams:
        named = any((self.capability, self.scope, self.query))
        if named == self.all:
            found = "`all` beside a filter" if named else "neither a filter nor `all`"
            raise ValueError(
                f"found {found}, expected one of both: say which examples to erase by "
                "capability, scope or query, or erase all of them"
            )
        return self


class ForgottenExamples(OperationModel):
    """What was erased."""

    forgotten: int
    """How many examples are gone."""


class ExampleOperations:
    """What was learned from use: the queries that capabilities have answered well."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    @operation("examples.list", also="discovery.examples", scope="operate")
    async def listed(self, _: Invocation, params: ExamplesParams) -> ExampleRows:
        """Show the queries that capabilities have answered well."""
        fits = self._examples.matching(
            scope=params.scope or None, capability=params.capability or None, text=params.text
        )
        return ExampleRows(
            examples=tuple(_row(example) for example in fits[: params.limit]),
            total=len(fits),
            enabled=self._examples.enabled,
            durable=self._examples.durable,
        )

    @operation("examples.export", scope="operate")
    async def export(self, _: Invocation, params: ExampleExportParams) -> ExportedExamples:
        """Export what was learned from use, for another home: the least recently used first.

        Whose it was is left out, and so are times.

        Example:
            hookgate examples export --scope principal:loopback --out examples.jsonl
        """
        fits = self._examples.matching(
            scope=params.scope or None, capability=params.capability or None
        )
        rows = list(reversed(fits))
        begin = int(params.after) if params.after.isdecimal() else 0
        end = begin + params.limit
        return ExportedExamples(
            examples=tuple(ExportedExample.of_record(one) for one in rows[begin:end]),
            next=str(end) if end < len(rows) else "",
        )

    @operation("examples.import", scope="operate")
    async def import_(
        self, invocation: Invocation, params: ExampleImportParams
    ) -> ImportedExamples:
        """Take in examples of an export; what is there already is left as it is.

        Example:
            hookgate examples import examples.jsonl --trusted
        """
        host = invocation.host
        agent = host.settings.default_agent or next(iter(host.settings.agents), "demo")
        scope = params.scope or self._examples.scope_for(invocation.principal.id, agent)
        new, known, left_out = await self._examples.take_in(
            scope,
            [(one.capability, one.text, one.count) for one in params.examples],
            trusted=params.trusted,
        )
        return ImportedExamples(new=new, known=known, left_out=left_out)

    @operation("examples.forget", also="discovery.forget", scope="operate")
    async def forget(self, _: Invocation, params: ForgetExamplesParams) -> ForgottenExamples:
        """Erase what was learned from use, by capability, scope or query, or all."""
        erased = await self._examples.forget(
            scope=params.scope or None,
            capability=params.capability or None,
            query=params.query or None,
        )
        return ForgottenExamples(forgotten=erased)


def _row(example: Example) -> ExampleRow:
    learned, used = _when(example.learned), _when(example.used)
    return ExampleRow.of_record(example, learned=learned, last_used=used)


def _when(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="seconds")

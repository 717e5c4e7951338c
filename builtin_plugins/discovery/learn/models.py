"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from pydantic import Field, model_validator

from hookgate import OperationModel


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

"""The operations that show and erase what was learned from use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hookgate import Invocation, operation
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.learn import models
else:
    models = on_demand("hookgate.builtin_plugins.discovery.learn.models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.learn.examples import Examples
    from hookgate.builtin_plugins.discovery.learn.view import Example


class ExampleOperations:
    """What was learned from use: the queries that capabilities have answered well."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    @operation("examples.list", also="discovery.examples", scope="operate")
    async def listed(self, _: Invocation, params: models.ExamplesParams) -> models.ExampleRows:
        """Show the queries that capabilities have answered well."""
        fits = self._examples.matching(
            scope=params.scope or None, capability=params.capability or None, text=params.text
        )
        return models.ExampleRows(
            examples=tuple(_row(example) for example in fits[: params.limit]),
            total=len(fits),
            enabled=self._examples.enabled,
            durable=self._examples.durable,
        )

    @operation("examples.export", scope="operate")
    async def export(
        self, _: Invocation, params: models.ExampleExportParams
    ) -> models.ExportedExamples:
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
        return models.ExportedExamples(
            examples=tuple(models.ExportedExample.of_record(one) for one in rows[begin:end]),
            next=str(end) if end < len(rows) else "",
        )

    @operation("examples.import", scope="operate")
    async def import_(
        self, invocation: Invocation, params: models.ExampleImportParams
    ) -> models.ImportedExamples:
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
        return models.ImportedExamples(new=new, known=known, left_out=left_out)

    @operation("examples.forget", also="discovery.forget", scope="operate")
    async def forget(
        self, _: Invocation, params: models.ForgetExamplesParams
    ) -> models.ForgottenExamples:
        """Erase what was learned from use, by capability, scope or query, or all."""
        erased = await self._examples.forget(
            scope=params.scope or None,
            capability=params.capability or None,
            query=params.query or None,
        )
        return models.ForgottenExamples(forgotten=erased)


def _row(example: Example) -> models.ExampleRow:
    learned, used = _when(example.learned), _when(example.used)
    return models.ExampleRow.of_record(example, learned=learned, last_used=used)


def _when(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="seconds")

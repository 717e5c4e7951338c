"""The operation ``usage``: what model calls have used, and what that cost.

Whoever is bound to some addresses sees the calls of their sessions and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import POSITIONAL, Invocation, operation
from hookgate.builtin_plugins.metering.calls import LedgerRow, UsageQuery, sound
from hookgate.builtin_plugins.metering.ledger import Reports, Totals
from hookgate.builtin_plugins.metering.limits import dollars
from hookgate.builtin_plugins.metering.tables import calls_of
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.operations import usage_models
else:
    usage_models = on_demand("hookgate.builtin_plugins.metering.operations.usage_models")


class UsageOperations:
    """What model calls have used, and what that cost.

    Attributes:
        reports: The reports, while the gateway is open.
    """

    def __init__(self) -> None:
        self.reports: Reports | None = None

    @operation("usage", rest=("GET", "/v1/usage"))
    async def usage(
        self, invocation: Invocation, params: usage_models.UsageParams
    ) -> usage_models.UsageSums:
        """Show what model calls have used and cost, and what caching saved.

        Example:
            hookgate usage --by model --since 2026-11
        """
        reports, names = self.reports, params.names
        assert reports is not None, "operations are called between start and stop"
        wanted = UsageQuery(names, params.equal, *params.days, most=params.limit)
        report = await reports.usage(wanted, invocation.principal)
        groups = [
            usage_models.Group(of=dict(zip(names, key, strict=True)), **_sums(totals))
            for key, totals in report.groups.items()
        ]
        return usage_models.UsageSums(
            by=list(names),
            groups=groups,
            more=report.found - len(groups),
            days=[
                usage_models.Group(of={"day": day}, **_sums(totals))
                for day, totals in report.days.items()
            ],
            whole=usage_models.Used(**_sums(report.whole)),
            durable=reports.ledger.store.durable,
            waiting=reports.ledger.waiting,
        )


class CallOperations:
    """Model calls: what each was for, how it ended, and what it cost."""

    def __init__(self, usage: UsageOperations) -> None:
        self._usage = usage

    @operation("calls.list")
    async def list_calls(
        self,
        invocation: Invocation,
        session: Annotated[str, Field(min_length=1, max_length=1_000), POSITIONAL],
        turn: Annotated[str, Field(max_length=80)] = "",
        limit: Annotated[int, Field(ge=1, le=1_000)] = 100,
    ) -> usage_models.Calls:
        """List the last model calls of a session, and what each has cost.

        Args:
            session: The session's key.
            turn: Only those of this turn.
            limit: So many at most, the last ones.

        Example:
            hookgate calls list main:cli:local:main
        """
        reports = self._usage.reports
        assert reports is not None, "operations are called between start and stop"
        if not invocation.principal.sees(session):
            return usage_models.Calls(calls=[])
        read = calls_of(sound(session), turn, limit)
        return usage_models.Calls(
            calls=[_row(call) for call in await reports.ledger.store.read(read)]
        )


def _row(call: LedgerRow) -> usage_models.CallRow:
    names = ("id", "at", "turn", "cause", "plugin", "status", "kind")
    return usage_models.CallRow(
        **{name: getattr(call, name) for name in names},
        model=f"{call.provider}/{call.model}",
        input_tokens=call.usage.input_tokens,
        output_tokens=call.usage.output_tokens,
        cost_usd=None if call.cost is None else f"{dollars(call.cost):f}",
    )


def _sums(totals: Totals) -> Mapping[str, Any]:
    sums = {
        **totals._asdict(),
        **totals.usage.to_json(),
        "cost_usd": f"{dollars(totals.cost):f}",
        "saved_usd": f"{dollars(totals.saved):f}",
    }
    return {name: sums[name] for name in usage_models.Used.model_fields}

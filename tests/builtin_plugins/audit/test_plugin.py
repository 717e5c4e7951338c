from __future__ import annotations

import os
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.builtin_plugins.stores import BrokenStore, opened_store
from tests.builtin_plugins.turns import TurnedClock, make_call, make_host, make_turn
from tests.support.script import until

from hookgate.builtin_plugins.audit.operations import AuditListParams
from hookgate.builtin_plugins.audit.plugin import Plugin
from hookgate.builtin_plugins.audit.settings import AuditSettings
from hookgate.core.domain.errors import StartError, StoreUnavailableError, TurnError
from hookgate.core.domain.events import MetricRecord
from hookgate.core.domain.ports import AUDIT
from hookgate.core.domain.tools import Decision, ToolResult
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.kit.json_lines import read_json_lines
from hookgate.ports import STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hookgate.core.host import Host


@asynccontextmanager
async def opened(
    home: Path, store: Any = None, **settings: Any
) -> AsyncIterator[tuple[Host, Plugin]]:
    host = make_host(home, secrets=["s3cret"])
    if store is not None:
        host.provide(STORE, store)
    plugin = Plugin(AuditSettings(**settings))
    async with plugin.lifespan(host):
        yield host, plugin


async def rows(host: Host, plugin: Plugin, **params: Any) -> Any:
    operation = plugin.list_operations(host)[0]
    invocation = Invocation(host=host, principal=Principal.owner())
    return await operation.handler(invocation, AuditListParams(**params))


async def test_a_key_of_before_has_to_be_there_and_is_none_that_is_made(tmp_path: Path) -> None:
    former = tmp_path / "audit.key.former"
    with pytest.raises(StartError, match=r"plugin\.audit\.former_keys.*audit\.key\.former"):
        async with opened(tmp_path, former_keys=(former,)):
            pass
    assert not former.exists()

    former.write_text("short")
    with pytest.raises(StartError, match=r"former_keys.*found 5 bytes"):
        async with opened(tmp_path, former_keys=(former,)):
            pass


async def test_decision_and_outcome_of_a_call_are_in_the_store(tmp_path: Path) -> None:
    turn, call = make_turn(), make_call("mail", arguments={"key": "s3cret"})
    async with opened_store(tmp_path) as store:
        async with opened(tmp_path, store) as (host, plugin):
            await plugin.tool_decided(turn, call, Decision.allow(by="policy"))
            plugin.tool_finished(turn, call, ToolResult(content="sent"))
        # Closing has written what was on its way.
        async with opened(tmp_path, store) as (host, plugin):
            listed = await rows(host, plugin, turn=turn.id)
            assert "audit" not in host.degraded
    assert [(row.kind, row.outcome) for row in listed.entries] == [
        ("tool_finished", "done"),
        ("tool_decided", "allow"),
    ]
    assert listed.entries[1].data["arguments"] == {"key": "***"}
    assert listed.entries[1].data["redacted"] is True
    assert listed.durable


async def test_decision_that_cannot_be_written_raises(tmp_path: Path) -> None:
    async with opened(tmp_path, BrokenStore()) as (_, plugin):
        with pytest.raises(StoreUnavailableError):
            await plugin.tool_decided(make_turn(), make_call(), Decision.allow())


async def test_outcome_that_cannot_be_written_is_said_until_a_row_can_be_written_again(
    tmp_path: Path,
) -> None:
    store = BrokenStore()
    async with opened(tmp_path, store) as (host, plugin):
        plugin.tool_finished(make_turn(), make_call(), ToolResult(content=""))
        await until(lambda: "audit.outcomes" in host.degraded)
        assert "could not be recorded: the disk is gone" in host.degraded["audit.outcomes"]
        store.broken = False
        await plugin.tool_decided(make_turn(), make_call(), Decision.allow())
        assert host.degraded == {}


async def test_without_a_store_the_last_rows_are_kept_and_that_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, ring=2) as (host, plugin):
        assert "enable the plugin `storage`" in host.degraded["audit"]
        for name in ("a", "b", "c"):
            await plugin.tool_decided(make_turn(), make_call(name), Decision.deny("no"))
        listed = await rows(host, plugin)
    assert [row.tool for row in listed.entries] == ["c", "b"]
    assert not listed.durable


async def test_rows_are_listed_page_by_page(tmp_path: Path) -> None:
    async with opened(tmp_path) as (host, plugin):
        for number in range(5):
            await host[AUDIT].append("k", {"n": number})
        seen, params = [], {"limit": 2, "before": ""}
        while True:
            page = await rows(host, plugin, **params)
            seen += [row.data["n"] for row in page.entries]
            if not page.next:
                break
            params["before"] = page.next
    assert seen == [4, 3, 2, 1, 0]


async def test_rows_of_a_period_and_of_a_kind_are_exported(tmp_path: Path) -> None:
    async with opened(tmp_path) as (host, plugin):
        operation = next(one for one in plugin.list_operations(host) if one.name == "audit.export")
        clock = cast("TurnedClock", host.clock)

        async def exported(**params: Any) -> list[str]:
            invocation = Invocation(host=host, principal=Principal.owner())
            asked = operation.params.model_validate(params)
            return [row["at"] for row in (await operation.handler(invocation, asked)).rows]

        for kind in ("k", "other", "k"):
            await host[AUDIT].append(kind, {})
            clock.advance(1)
        first, second, third = await exported()
        assert await exported(kind="k") == [first, third]
        assert await exported(since=second) == [second, third]
        elsewhere = datetime.fromisoformat(third).astimezone(timezone(timedelta(hours=5)))
        assert await exported(until=elsewhere.isoformat(), since=second) == [second]
        with pytest.raises(TurnError, match="expected a time"):
            await exported(since="yesterday")


@pytest.mark.parametrize("before", ["x", "a/b", "a/b/c", "a/b/1/2"])
def test_place_that_is_none_is_refused(before: str) -> None:
    with pytest.raises(ValueError, match="before"):
        AuditListParams(before=before)


async def test_other_plugins_write_to_the_same_trail(tmp_path: Path) -> None:
    async with opened(tmp_path) as (host, plugin):
        await host[AUDIT].append("policy_changed", {"to": "strict", "token": "s3cret"})
        listed = await rows(host, plugin, kind="policy_changed")
    assert [row.data for row in listed.entries] == [
        {"to": "strict", "token": "***", "redacted": True}
    ]


async def test_figures_go_to_the_file_in_home(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, plugin):
        plugin.log_metrics(MetricRecord(name="turn", timestamp=5, fields={"ms": 1.5}))
    assert list(read_json_lines(tmp_path / "metrics.jsonl")) == [
        {"timestamp": 5, "name": "turn", "ms": 1.5}
    ]


async def test_no_file_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    async with opened(tmp_path, metrics={"enabled": False}) as (_, plugin):
        plugin.log_metrics(MetricRecord(name="turn", timestamp=5))
    assert os.listdir(tmp_path) == ["audit.key"]


async def test_call_before_the_gateway_runs_is_denied_by_an_error() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await Plugin(AuditSettings()).tool_decided(make_turn(), make_call(), Decision.allow())

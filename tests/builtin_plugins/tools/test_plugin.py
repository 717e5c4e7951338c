from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from tests.builtin_plugins.turns import make_host, make_turn

from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.tools.plugin import Plugin, ToolsSettings
from hookgate.core.domain.errors import StartError
from hookgate.core.domain.strict_json import compile_schema
from hookgate.core.domain.tools import Tool, ToolResult
from hookgate.ports import EGRESS


class OpenEgress:
    """An `Egress` that answers by itself and notes what it was asked for."""

    def __init__(self) -> None:
        self.grants: list[tuple[str, ...]] = []
        self.clients: list[httpx.AsyncClient] = []

    def client(self, grants: Any, **_: Any) -> httpx.AsyncClient:
        self.grants.append(tuple(grants))
        transport = httpx.MockTransport(lambda request: httpx.Response(200, text=str(request.url)))
        self.clients.append(httpx.AsyncClient(transport=transport))
        return self.clients[-1]


def tools_of(**settings: Any) -> dict[str, Tool]:
    plugin = Plugin(ToolsSettings(**settings))
    return {tool.name: tool for tool in plugin.list_tools(make_host())}


async def call(tool: Tool, **arguments: Any) -> ToolResult:
    assert compile_schema(tool.schema)(arguments) == []
    assert tool.run is not None
    result = await tool.run(make_turn(), arguments)
    return ToolResult(content=result) if isinstance(result, str) else result


def test_tools_that_need_a_grant_are_offered_only_with_one(tmp_path: Path) -> None:
    assert tools_of().keys() == {"clock", "calculate"}
    granted = tools_of(http_get=("https://example.org/*",), read_roots=(tmp_path,))
    assert granted.keys() == {"clock", "calculate", "http_get", "read_file"}


def test_tools_that_wait_for_a_grant_are_unavailable_capabilities_that_name_the_key() -> None:
    host = make_host()
    rows = {row.id: row for row in Plugin(ToolsSettings()).list_capabilities(host)}
    assert rows.keys() == {"tool:http_get", "tool:read_file"}
    assert not any(row.available for row in rows.values())
    assert "[plugin.tools] read_roots" in rows["tool:read_file"].description
    other = Tool(
        name="read_file", description="Another's.", schema={"type": "object"}, owner="client"
    )
    host.tools.apply("other", [other])
    assert [row.id for row in Plugin(ToolsSettings()).list_capabilities(host)] == ["tool:http_get"]
    granted = ToolsSettings(http_get=("https://example.org/*",), read_roots=(Path("/srv"),))
    assert Plugin(granted).list_capabilities(host) == []


async def test_clock_reads_the_gateways_clock() -> None:
    clock = tools_of()["clock"]
    assert (await call(clock)).content == "2024-02-29T12:00:00+00:00 (Thursday, UTC)"
    assert (await call(clock, timezone="Asia/Tokyo")).data["weekday"] == "Thursday"
    wrong = await call(clock, timezone="Tokio")
    assert wrong.is_error
    assert "expected UTC or" in wrong.content


async def test_calculate_answers_or_says_why_not() -> None:
    calculate = tools_of()["calculate"]
    assert (await call(calculate, expression="6 * 7")).content == "42"
    wrong = await call(calculate, expression="1 / 0")
    assert wrong.is_error
    assert "division by zero" in wrong.content


async def test_read_file_reads_below_its_roots_and_taints(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text of a")
    tool = tools_of(read_roots=(tmp_path,), read_bytes=6)["read_file"]
    result = await call(tool, path="a.txt")
    assert result.content == "text o\n[cut after 6 bytes]"
    assert result.taint == {"tool:read_file"}
    assert (await call(tool, path="../b.txt")).is_error


async def test_http_get_goes_out_by_the_checked_way_with_its_grants_only() -> None:
    plugin = Plugin(ToolsSettings(http_get=("https://example.org/*",)))
    host, egress = make_host(), OpenEgress()
    tool = {tool.name: tool for tool in plugin.list_tools(host)}["http_get"]
    async with plugin.lifespan(host):
        assert "plugin `egress`" in (await call(tool, url="https://example.org/a")).content
        host.provide(EGRESS, egress)
        result = await call(tool, url="https://example.org/a")
        assert result.content.endswith("https://example.org/a")
        await call(tool, url="https://example.org/b")
        assert egress.grants == [("https://example.org/*",)]
        assert not egress.clients[0].is_closed
    assert egress.clients[0].is_closed


async def test_grant_that_egress_does_not_understand_stops_the_start_and_names_the_key() -> None:
    host = make_host()
    host.provide(EGRESS, CheckedEgress())
    plugin = Plugin(ToolsSettings(http_get=("https://*.org/*",)))
    with pytest.raises(StartError, match=r"\[plugin\.tools\] http_get.*found the grant"):
        async with plugin.lifespan(host):
            raise AssertionError("it has started")


def test_flags_are_declared_for_every_tool(tmp_path: Path) -> None:
    tools = tools_of(http_get=("https://example.org/*",), read_roots=(tmp_path,))
    assert not [name for name, tool in tools.items() if None in tool.flags.to_json().values()]
    assert tools["http_get"].flags.sends_externally
    assert tools["read_file"].flags.reads_external_data
    assert not any(tools["calculate"].flags.to_json().values())


def test_grant_that_is_no_url_is_refused() -> None:
    with pytest.raises(ValidationError, match="expected a URL pattern"):
        ToolsSettings(http_get=("example.org",))

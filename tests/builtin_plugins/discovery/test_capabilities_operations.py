from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.discovery.folders import manifest
from tests.builtin_plugins.turns import make_host
from tests.support.script import Script, Scripted, Tools, echo_tool, say, settings

from hookgate import Gateway, hookimpl
from hookgate.builtin_plugins.discovery.operations import CapabilityOperations
from hookgate.builtin_plugins.discovery.sources.collection import Collected
from hookgate.builtin_plugins.discovery.sources.manifests import read_manifest
from hookgate.clients import call_operation
from hookgate.core.domain.descriptors import Capability, Flags
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.secret_store import redact_json
from hookgate.kit.functions.operations import operations_of

ROWS = [
    Capability(
        id="skill:draft-email", kind="skill", name="draft-email", category="writing", tags=("mail",)
    ),
    Capability(id="skill:other", kind="skill", name="other", category="Writing", available=False),
    Capability(
        id="extension:gif",
        kind="extension",
        name="gif",
        description="Finds pictures, key canary-1.",
        flags=Flags(sends_externally=True),
    ),
]


async def ask(name: str, rows: list[Capability] | None = None, **params: Any) -> dict[str, Any]:
    host = make_host(secrets=["canary-1"])
    host.capabilities.apply("files", ROWS if rows is None else rows)
    reasons = {"skill:other": ("the tool gone is not registered",)}
    operations = {
        one.name: one
        for one in operations_of(CapabilityOperations(lambda: Collected(reasons=reasons)))
    }
    operation = operations[f"capabilities.{name}"]
    invocation = Invocation(host=host, principal=Principal.owner())
    result = await operation.handler(invocation, operation.params(**params))
    # As it leaves the gateway.
    masked = redact_json(host.secrets, result.model_dump())
    return dict(type(result).model_validate(masked).model_dump())


@pytest.mark.parametrize(
    ("params", "ids"),
    [
        ({}, ["extension:gif", "skill:draft-email", "skill:other"]),
        ({"kind": "skill"}, ["skill:draft-email", "skill:other"]),
        ({"category": "writing"}, ["skill:draft-email", "skill:other"]),
        ({"available": True, "kind": "skill"}, ["skill:draft-email"]),
        ({"available": False}, ["skill:other"]),
        ({"text": "MAIL"}, ["skill:draft-email"]),
        ({"text": "pictures"}, ["extension:gif"]),
        ({"kind": "channel"}, []),
    ],
)
async def test_the_list_is_filtered(params: dict[str, Any], ids: list[str]) -> None:
    found = await ask("list", **params)
    assert [row["id"] for row in found["capabilities"]] == ids


async def test_a_row_has_the_columns_of_the_list() -> None:
    (row,) = (await ask("list", text="other"))["capabilities"]
    assert row == {
        "id": "skill:other",
        "kind": "skill",
        "category": "Writing",
        "available": False,
        "source": "",
    }


async def test_everything_about_one_is_shown(tmp_path: Path) -> None:
    path = manifest(
        tmp_path / "own",
        "inputSchema: {type: object, properties: {a: {}}}\nflags: {sendsExternally: true}\n",
        SKILL_md="Do it with canary-1.",
    )
    (declared,) = read_manifest(path).found
    found = await ask("show", [declared.row], id="skill:own")
    assert found["source"] == str(path)
    assert found["parameters"] == ("a",)
    assert found["input_schema"] == {"type": "object", "properties": {"a": {}}}
    assert found["content"] == "Do it with ***."
    assert found["flags"]["sends_externally"] is True
    assert found["flags"]["reads_external_data"] is None
    assert found["problem"] == ""
    path.with_name("SKILL.md").unlink()
    found = await ask("show", [declared.row], id="skill:own")
    assert "no such file" in found["problem"]
    assert found["content"] == ""


async def test_why_it_is_not_available_is_shown() -> None:
    found = await ask("show", id="skill:other")
    assert found["unavailable_because"] == ("the tool gone is not registered",)
    assert (await ask("show", id="extension:gif"))["description"] == "Finds pictures, key ***."


async def test_an_id_that_is_not_known_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(TurnError, match="did you mean 'skill:draft-email'") as caught:
        await ask("show", id="skill:draft-mail")
    assert caught.value.code == "not_found"


class Skills:
    name = "skills"

    @hookimpl
    def list_capabilities(self) -> list[Capability]:
        needs = {"required_tools": ("echo",)}
        return [Capability(id=f"skill:{name}", kind="skill", name=name, **needs) for name in "ab"]


async def test_the_graph_is_told_page_by_page_with_who_may_use_what(tmp_path: Path) -> None:
    agents = {"main": {"model": "script/one"}, "ada": {"model": "script/one", "tools": ["x*"]}}
    plugins = [Scripted(Script(say("fine"))), Tools(echo_tool()), Skills()]
    config = settings(tmp_path, agents=agents)
    pages: list[Any] = []
    async with Gateway(config, builtin=("control", "discovery"), plugins=plugins) as gate:
        ask: dict[str, Any] = {"limit": 3}
        while not pages or ask["after"]:
            found = await call_operation(
                gate.host, Principal.owner(), "capabilities.graph", ask, path="test"
            )
            pages.append(found)
            ask["after"] = found.next
    users = {node.id: list(node.agents) for page in pages for node in page.nodes}
    edges = [(one.source, one.target, one.type) for page in pages for one in page.edges]
    assert len(pages) > 1
    assert users["skill:a"] == ["ada", "main"]
    assert users["tool:echo"] == ["main"]
    assert [one for one in edges if one[1] == "tool:echo"] == [
        ("skill:a", "tool:echo", "DEPENDS_ON"),
        ("skill:b", "tool:echo", "DEPENDS_ON"),
    ]

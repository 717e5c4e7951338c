"""The modules beside the examples do what their manifests say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.limits import GuestRefusedError, Limits
from hookgate.builtin_plugins.wasm.engine.sandbox import Sandbox

from .examples import FOLDERS, TOOL, ask, load, manifest, use

BUILT = {name: folder for name, folder in FOLDERS.items() if manifest(folder).digest}
"""Those whose module is here; that of the guest in Python is too large for it."""

each_built = pytest.mark.parametrize("name", sorted(BUILT))


def test_the_modules_of_three_languages_are_here() -> None:
    assert {"echo-c", "text-rust", "http-assemblyscript", "telegram"} <= set(BUILT)


@each_built
def test_a_module_is_what_its_manifest_names(name: str) -> None:
    said = manifest(FOLDERS[name])
    module = (FOLDERS[name] / said.module).read_bytes()

    assert said.digest == hashlib.sha256(module).hexdigest()
    assert len(module) < 70_000


@each_built
async def test_a_module_describes_the_tools_of_its_manifest(sandbox: Sandbox, name: str) -> None:
    said = manifest(FOLDERS[name])
    guest = await load(sandbox, FOLDERS[name])

    described = await ask(guest, "describe", {})

    assert (described["name"], described["version"]) == (said.name, said.version)
    tools = [tool["name"] for tool in described.get("tools", [])]
    assert tools == [tool.name for tool in said.tools]


@pytest.mark.parametrize("text", ["", "to be", 'é\n"\\\t😀\u0001', "x" * 100_000])
async def test_echo_says_what_it_was_told(sandbox: Sandbox, text: str) -> None:
    guest = await load(sandbox, FOLDERS["echo-c"])

    assert await use(guest, "echo", text=text) == {"content": text}


async def test_echo_says_what_is_wrong(sandbox: Sandbox) -> None:
    guest = await load(sandbox, FOLDERS["echo-c"])

    assert await use(guest, "echo", text=5) == {
        "content": 'echo needs a text: {"text": "..."}',
        "is_error": True,
    }
    assert (await use(guest, "other", text=""))["is_error"]


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("text_count", {"text": "a é\n😀"}, {"bytes": 9, "characters": 5, "words": 3, "lines": 2}),
        ("text_count", {"text": ""}, {"bytes": 0, "characters": 0, "words": 0, "lines": 0}),
        ("text_slug", {"text": "  Wörld -- of (C) Things!"}, "wörld-of-c-things"),
        ("text_slug", {"text": "a long title", "longest": 6}, "a-long"),
        ("text_slug", {"text": "aé", "longest": 2}, "a"),
        (
            "text_find",
            {"text": "é no\nno no", "what": "no"},
            [{"line": 1, "column": 3}, {"line": 2, "column": 1}, {"line": 2, "column": 4}],
        ),
    ],
)
async def test_the_tools_for_text_are_exact(
    sandbox: Sandbox, tool: str, given: dict[str, Any], said: Any
) -> None:
    guest = await load(sandbox, FOLDERS["text-rust"])

    answer = await use(guest, tool, **given)

    content = answer["content"]
    assert (content if isinstance(said, str) else json.loads(content)) == said
    assert "is_error" not in answer


async def test_the_tools_for_text_say_what_is_missing(sandbox: Sandbox) -> None:
    guest = await load(sandbox, FOLDERS["text-rust"])

    for tool, given in (("text_count", {}), ("text_find", {"text": "a"}), ("x", {"text": "a"})):
        assert (await use(guest, tool, **given))["is_error"] is True


DOCUMENT = {"a": {"b": [10, {"c": "é"}]}, "n": 12345678901234567890, "none": None}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a.b.1.c", "é"),
        ("a.b.0", "10"),
        ("n", "12345678901234567890"),
        ("none", "null"),
        ("a.b", '[10,{"c":"é"}]'),
        ("a.b.7", "null"),
        ("a.b.x", "null"),
    ],
)
async def test_a_field_of_a_document_is_found(sandbox: Sandbox, path: str, said: str) -> None:
    guest = await load(sandbox, FOLDERS["http-assemblyscript"])
    asked = []

    def http(request: bytes, context: CallContext) -> bytes:
        asked.append(json.loads(request))
        body = json.dumps(DOCUMENT)
        return json.dumps({"ok": {"status": 200, "headers": {}, "body": body}}).encode()

    given = {"url": "https://api.example.com/x", "field": path}
    answer = await ask(guest, TOOL, {"name": "json_field", "input": given}, http=http)

    assert answer == {"content": said}
    assert asked == [
        {
            "url": "https://api.example.com/x",
            "method": "GET",
            "headers": {"accept": "application/json"},
        }
    ]


@pytest.mark.parametrize(
    ("came", "said"),
    [
        ({"error": {"code": "not_granted", "message": "No grant."}}, "not made: No grant."),
        ({"ok": {"status": 404, "body": ""}}, "status 404"),
        ({"ok": {"status": 200, "body": "<html>"}}, "no JSON"),
        ({"ok": {"status": 200, "body": '{"b":1}'}}, "has no a."),
    ],
)
async def test_a_document_that_is_not_to_be_had_is_an_error(
    sandbox: Sandbox, came: dict[str, Any], said: str
) -> None:
    guest = await load(sandbox, FOLDERS["http-assemblyscript"])

    def http(request: bytes, context: CallContext) -> bytes:
        return json.dumps(came).encode()

    given = {"url": "https://api.example.com/x", "field": "a"}
    answer = await ask(guest, TOOL, {"name": "json_field", "input": given}, http=http)

    assert (answer["is_error"], said in answer["content"]) == (True, True), answer


async def test_the_tool_for_documents_is_refused_without_its_grant(sandbox: Sandbox) -> None:
    folder: Path = FOLDERS["http-assemblyscript"]

    with pytest.raises(GuestRefusedError, match=r"imports hookgate\.http, which is not granted"):
        await sandbox.load(
            (folder / "http.wasm").read_bytes(), name="acme", limits=Limits(), imports={"log"}
        )
